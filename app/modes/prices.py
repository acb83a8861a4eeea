"""The plain values of the choice between modes: what a query costs in each, and what was chosen."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from app.schemas import Mode

DECIDABLE = (Mode.RAG, Mode.CAG, Mode.HYBRID)


@dataclass(frozen=True, slots=True, kw_only=True)
class ModeCost:
    """What one query costs in a mode. Seconds are of prefill or of waiting; decode is equal.

    Attributes:
        possible: whether the mode can answer at all; `problem` says why not.
        prompt_tokens: of the whole prompt.
        prefill_tokens: to be computed for this query, after what the mode has in cache now.
        prefill_s: computing them over what is cached, with the engine's fixed part.
        load_s: loading KV from the tiers.
        retrieval_s: embedding the question and searching.
        pool_tokens: held in the KV pool from one query to the next.
        eviction_s: prefill of other traffic that is lost by holding them.
        total_s: of this query, all of the above.
        lasting_s: of a query in the long run: warm, but for changes and evictions.
        warm_s: what of `total_s` is paid once, because the prefix isn't in the pool yet.
    """

    possible: bool = True
    problem: str | None = None
    prompt_tokens: float = 0.0
    prefill_tokens: float = 0.0
    prefill_s: float = 0.0
    load_s: float = 0.0
    retrieval_s: float = 0.0
    pool_tokens: float = 0.0
    eviction_s: float = 0.0
    lasting_s: float = 0.0
    warm_s: float = 0.0

    @property
    def ttft_s(self) -> float:
        """The time to the first token that is predicted for this query."""
        return self.prefill_s + self.load_s + self.retrieval_s

    @property
    def total_s(self) -> float:
        """What this query costs, others' losses included."""
        return self.ttft_s + self.eviction_s

    def json(self) -> dict[str, object]:
        """The figures as JSON values; a mode that isn't possible has only its problem."""
        if not self.possible:
            return {"possible": False, "problem": self.problem}
        return {
            "possible": True,
            "problem": None,
            "prompt_tokens": round(self.prompt_tokens),
            "prefill_tokens": round(self.prefill_tokens),
            "prefill_s": _rounded(self.prefill_s),
            "load_s": _rounded(self.load_s),
            "retrieval_s": _rounded(self.retrieval_s),
            "pool_tokens": round(self.pool_tokens),
            "eviction_s": _rounded(self.eviction_s),
            "ttft_s": _rounded(self.ttft_s),
            "total_s": _rounded(self.total_s),
            "lasting_s": _rounded(self.lasting_s),
            "warm_s": _rounded(self.warm_s),
        }


def impossible(problem: str) -> ModeCost:
    """The cost of a mode that can't answer."""
    return ModeCost(possible=False, problem=problem)


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """Which mode answers a query, and why.

    Attributes:
        costs: by mode; empty where a rule decided before anything was priced.
        collection_id, question_tokens: what was decided about.
        counted: whether the query was one for `auto` to learn from.
    """

    mode: Mode
    reason: str
    costs: Mapping[Mode, ModeCost] = field(default_factory=dict)
    collection_id: str | None = None
    question_tokens: int = 0
    counted: bool = False

    def predicted_ttft_s(self, mode: Mode) -> float | None:
        """The time to the first token expected in a mode; None where that wasn't priced."""
        cost = self.costs.get(mode)
        return cost.ttft_s if cost is not None and cost.possible else None

    def costs_json(self) -> dict[str, object]:
        """The costs by the modes' names, as in a response's `mode_costs`."""
        return {mode.value: cost.json() for mode, cost in self.costs.items()}


def _rounded(seconds: float) -> float:
    """To the microsecond: more digits would only look exact."""
    return round(seconds, 6)
