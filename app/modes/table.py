"""The table of modes that `/foreword/plan` shows for each collection."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from app.modes.gate import GateVerdict
from app.modes.money import Prices, dollars
from app.modes.policy import ModePolicy
from app.modes.prices import DECIDABLE, Decision, ModeCost
from app.modes.store import StoredScores
from app.schemas import Mode
from retrieval import Collection

# A question of the length that people ask.
TYPICAL_QUESTION_TOKENS = 32
_HOUR_S = 3600


@dataclass(frozen=True, slots=True, kw_only=True)
class Rates:
    """How often a collection is asked and changed, and what retrieval finds in it."""

    asked_per_hour: float
    changes_per_hour: float
    stale_share: float
    found_tokens: float
    found_cached_share: float
    retrieval_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ModeRow:
    """One collection's line of the table.

    Attributes:
        mode: where it stands; `pinned` says that neither cost nor quality moves it.
        cheapest: by cost alone, in the long run; None where no mode is possible.
        last: the last decision; None since the gateway's start.
        costs: of a typical question now.
        gate: for each other mode, what the quality gate says of going there.
    """

    collection: str
    collection_id: str
    revision: int
    mode: Mode
    pinned: bool
    cheapest: Mode | None
    last: Decision | None
    costs: Mapping[Mode, ModeCost]
    rates: Rates
    decided: Mapping[Mode, int]
    gate: Mapping[Mode, GateVerdict]
    scores: StoredScores | None


def mode_row(policy: ModePolicy, collection: Collection) -> ModeRow:
    """The line of a collection, by what is known now.

    Raises:
        EngineNotReadyError: there is no engine.
    """
    learning, at = policy.learned(collection), policy.now()
    pinned, last = policy.pinned(collection), policy.last(collection.id)
    fixed = pinned is not None and pinned is not Mode.AUTO
    mode = pinned if fixed and pinned is not None else learning.standing.mode
    gate = policy.gate(collection)
    rag = policy.rag(collection)
    costs = policy.costs(collection, question_tokens=TYPICAL_QUESTION_TOKENS)
    return ModeRow(
        collection=collection.name,
        collection_id=collection.id,
        revision=collection.revision,
        mode=mode,
        pinned=fixed,
        cheapest=_cheapest(costs),
        last=last,
        costs=costs,
        rates=Rates(
            asked_per_hour=learning.asked.per_s(at) * _HOUR_S,
            changes_per_hour=learning.changed.per_s(at) * _HOUR_S,
            stale_share=learning.stale.value,
            found_tokens=rag.found_tokens,
            found_cached_share=rag.cached_share,
            retrieval_s=rag.retrieval_s,
        ),
        decided=dict(learning.by_mode),
        gate={each: gate(each, mode) for each in DECIDABLE if each is not mode},
        scores=policy.scores(collection.id),
    )


def _cheapest(costs: Mapping[Mode, ModeCost]) -> Mode | None:
    possible = [mode for mode, cost in costs.items() if cost.possible]
    return min(possible, key=lambda mode: costs[mode].lasting_s, default=None)


def row_json(row: ModeRow) -> dict[str, object]:
    """The line as JSON values."""
    rates = row.rates
    return {
        "collection": row.collection,
        "collection_id": row.collection_id,
        "revision": row.revision,
        "mode": row.mode.value,
        "pinned": row.pinned,
        "reason": row.last.reason if row.last else None,
        "last": None
        if row.last is None
        else {"mode": row.last.mode.value, "question_tokens": row.last.question_tokens},
        "cheapest": row.cheapest.value if row.cheapest else None,
        "question_tokens": TYPICAL_QUESTION_TOKENS,
        "costs": {mode.value: cost.json() for mode, cost in row.costs.items()},
        "rates": {
            "asked_per_hour": round(rates.asked_per_hour, 3),
            "changes_per_hour": round(rates.changes_per_hour, 3),
            "stale_share": round(rates.stale_share, 4),
            "found_tokens": round(rates.found_tokens, 1),
            "found_cached_share": round(rates.found_cached_share, 4),
            "retrieval_s": round(rates.retrieval_s, 6),
        },
        "decided": {mode.value: count for mode, count in row.decided.items()},
        "gate": {
            "scores": scores_json(row.scores),
            "switches": {
                mode.value: {"passes": verdict.passes, "note": verdict.note}
                for mode, verdict in row.gate.items()
            },
        },
    }


def scores_json(stored: StoredScores | None) -> dict[str, object] | None:
    """An evaluation as JSON values; its single scores are left out."""
    if stored is None:
        return None
    scores = stored.scores
    return {
        "metric": scores.metric,
        "revision": scores.revision,
        "model": scores.model,
        "questions": scores.questions,
        "evaluated_at": stored.evaluated_at,
        "mean": {mode.value: scores.mean(mode) for mode in scores.scores},
    }


def money_json(row: ModeRow, *, prices: Prices | None, gpu_hour: float | None) -> dict[str, object]:
    """The same question in dollars, by mode: at a vendor's prices, and on GPUs of one's own.

    At a vendor's what is cached here is taken to be cached there. None where no price is set.
    """
    return {
        mode.value: {
            "vendor_dollars": None
            if prices is None
            else dollars(prices, cost.prompt_tokens - cost.prefill_tokens, cost.prefill_tokens),
            "gpu_dollars": None if gpu_hour is None else cost.total_s * gpu_hour / _HOUR_S,
        }
        for mode, cost in row.costs.items()
        if cost.possible
    }


def rows_text(rows: Sequence[ModeRow]) -> str:
    """The table for people; empty without collections."""
    return "".join(line + "\n" for row in rows for line in _lines(row))


def _lines(row: ModeRow) -> Iterator[str]:
    yield f"{row.collection}: {row.mode.value}: {_why(row)}"
    if row.cheapest not in (None, row.mode):
        yield f"  by cost alone, in the long run: {row.cheapest}"
    yield (
        "  mode      computed    to first token    loading   retrieval       held    a query, "
        "in the long run"
    )
    yield from (_cost_line(mode, cost) for mode, cost in row.costs.items())
    rates = row.rates
    yield (
        f"  asked {rates.asked_per_hour:,.1f} times an hour, changed "
        f"{rates.changes_per_hour:,.1f} times; {rates.stale_share:.0%} of the questions find it "
        f"changed; a search finds "
        f"{rates.found_tokens:,.0f} tokens, {rates.found_cached_share:.0%} of them cached"
    )
    yield f"  quality: {_quality(row)}"


def _why(row: ModeRow) -> str:
    if row.pinned:
        return "pinned"
    if row.last is None:
        return "not asked since the gateway started"
    # A request may name another mode than the collection stands in.
    asked = "" if row.last.mode is row.mode else f"the last question went to {row.last.mode}: "
    return f"{asked}{row.last.reason}"


def _cost_line(mode: Mode, cost: ModeCost) -> str:
    if not cost.possible:
        return f"  {mode.value:<6}  not possible: {cost.problem}"
    return (
        f"  {mode.value:<6}{cost.prefill_tokens:>12,.0f}{cost.ttft_s:>16.3f} s"
        f"{cost.load_s:>9.3f} s{cost.retrieval_s:>10.3f} s{cost.pool_tokens:>11,.0f}"
        f"{cost.lasting_s:>11.3f} s"
    )


def _quality(row: ModeRow) -> str:
    notes = dict.fromkeys(
        verdict.note for mode, verdict in row.gate.items() if row.costs[mode].possible
    )
    return "; ".join(notes) or "nothing to switch to"
