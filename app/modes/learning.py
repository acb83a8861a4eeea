"""What is learned of a collection, and of the engine that all share, from question to question.

Pure: the caller's clock (seconds since the epoch), no I/O. Not thread-safe.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from heapq import nlargest
from operator import itemgetter

import msgspec

from app.modes.costs import RagFacts, Traffic
from app.modes.loads import LoadLearner, TierCosts
from app.modes.prices import DECIDABLE
from app.modes.rates import DecayedRate, Recent, Share, numbers
from app.modes.switch import Standing
from app.modes.ttft import Sample, TtftLearner
from app.schemas import Mode

# The most documents of a collection whose finds are remembered.
MOST_DOCUMENTS = 512
# Finds older than about so many questions hardly count.
_FINDS_MEMORY = 200.0


class Answered(msgspec.Struct, kw_only=True, frozen=True):
    """One request that has ended, as far as costs depend on it. What isn't known is None.

    Attributes:
        collection_id: None without a collection.
        mode: it was answered in; None without a collection.
        first_turn: whether it began its conversation; later turns tell nothing of a mode's costs.
        question_tokens: as the decision was made with.
        prompt_tokens, cached_tokens, loaded_tokens: by the engine; loaded ones (from the tiers)
            are among the cached.
        ram_tokens, below_tokens: of the loaded ones, by the tier server.
        evicted_tokens: computed again because the pool had evicted them (the verdict `evicted`).
        found_tokens: of the passages found for this turn, as they stand in the prompt.
        found: document id → tokens of its passages among them.
        scaffold_tokens: leading tokens that all prompts of the template share; of retrieval only.
        ttft_s: from its arrival; None where the answer wasn't streamed.
        retrieval_s: of that, the search; None where there was none.
        others: requests that ran beside it when it was sent; None if it never was.
    """

    collection_id: str | None = None
    mode: Mode | None = None
    first_turn: bool = True
    question_tokens: int = 0
    prompt_tokens: int | None = None
    cached_tokens: int | None = None
    loaded_tokens: int | None = None
    ram_tokens: int | None = None
    below_tokens: int | None = None
    evicted_tokens: int = 0
    found_tokens: int | None = None
    found: Mapping[str, int] = msgspec.field(default_factory=dict)
    scaffold_tokens: int = 0
    ttft_s: float | None = None
    retrieval_s: float | None = None
    others: int | None = None

    @property
    def uncached_tokens(self) -> int | None:
        """What the engine computed; None where it didn't tell."""
        if self.prompt_tokens is None or self.cached_tokens is None:
            return None
        return max(0, self.prompt_tokens - self.cached_tokens)


@dataclass(slots=True, kw_only=True)
class EngineLearning:
    """What all collections share: the engine's speed and the traffic through its KV pool.

    Attributes:
        into_ram_tokens: all that requests brought into the tiers' RAM since the start.
    """

    ttft: TtftLearner = field(default_factory=TtftLearner)
    loads: LoadLearner = field(default_factory=LoadLearner)
    into_ram_tokens: float = 0.0
    inserted: DecayedRate = field(default_factory=DecayedRate)
    lost: DecayedRate = field(default_factory=DecayedRate)

    def learn(self, answered: Answered, at: float, *, tiers: TierCosts | None = None) -> None:
        """A request has ended; `tiers` are the measured costs of loads."""
        prompt, cached = answered.prompt_tokens, answered.cached_tokens
        if prompt is None or cached is None:
            return
        computed = max(0, prompt - cached)
        self.inserted.count(at, computed)
        self.lost.count(at, answered.evicted_tokens)
        self.into_ram_tokens += computed + (answered.below_tokens or 0)
        if answered.ttft_s is None:
            return
        seconds, others = answered.ttft_s - (answered.retrieval_s or 0.0), answered.others or 0
        if not answered.loaded_tokens:
            sample = Sample(computed=computed, cached=cached, seconds=seconds, others=others)
            self.ttft.learn(sample)
        elif tiers is not None and not others:
            self.loads.learn(
                seconds - self.ttft.model.seconds(computed, cached),
                ram_tokens=answered.ram_tokens or 0,
                below_tokens=answered.below_tokens or 0,
                measured=tiers,
            )

    def new_engine(self) -> None:
        """The engine serves another model now."""
        self.ttft.forget()
        self.loads = LoadLearner()


@dataclass(frozen=True, slots=True, kw_only=True)
class LearningRules:
    """Where learning starts before anything was seen.

    Attributes:
        prior_stale, prior_fresh: as many questions are taken to have found the documents changed
            and unchanged.
        found_tokens, retrieval_s: of a search, before the first one.
    """

    prior_stale: float = 0.02
    prior_fresh: float = 1.0
    found_tokens: float = 1200.0
    retrieval_s: float = 0.03


@dataclass(slots=True, kw_only=True)
class CollectionLearning:
    """One collection: how often it is asked and changed, what retrieval finds, where it stands.

    Attributes:
        tail: tokens behind the prefix beside the question (roles, instructions).
        found: document id → decayed tokens of its passages among those found.
        core: ids of the documents of the hybrid's core, in the order of the prompt.
        core_used_at: when a hybrid prompt was last answered.
        whole_at_tokens: the engine's `into_ram_tokens` when it was last shown whole; None if it
            never was since the start.
    """

    rules: LearningRules = field(default_factory=LearningRules)
    standing: Standing = field(default_factory=Standing)
    revision: int | None = None
    asked: DecayedRate = field(default_factory=DecayedRate)
    changed: DecayedRate = field(default_factory=DecayedRate)
    inserted: DecayedRate = field(default_factory=DecayedRate)
    lost: DecayedRate = field(default_factory=DecayedRate)
    stale: Share = field(default_factory=lambda: Share(prior_yes=0.02, prior_no=1.0))
    changed_share: Recent = field(default_factory=Recent)
    found_tokens: Recent = field(default_factory=Recent)
    found_cached: Recent = field(default_factory=Recent)
    retrieval: Recent = field(default_factory=Recent)
    scaffold: Recent = field(default_factory=Recent)
    tail: Recent = field(default_factory=Recent)
    found: dict[str, float] = field(default_factory=dict)
    core: tuple[str, ...] = ()
    core_used_at: float | None = None
    whole_at_tokens: float | None = None
    by_mode: dict[Mode, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.stale.prior_yes = self.rules.prior_stale
        self.stale.prior_no = self.rules.prior_fresh

    def ask(self, at: float, revision: int) -> bool:
        """A question came; says whether the documents changed since the last one.

        However often they changed in between, a prefix is made anew once: when it is asked for.
        """
        changes = 0 if self.revision is None else max(0, revision - self.revision)
        if self.revision is not None:
            self.stale.count(changes > 0)
        if changes:
            self.changed.count(at, changes)
        self.asked.count(at)
        self.revision = revision
        return changes > 0

    def learn(self, answered: Answered, at: float) -> None:
        """An answer tells what retrieval found and what of it was cached."""
        if answered.mode in DECIDABLE:
            self.by_mode[answered.mode] = self.by_mode.get(answered.mode, 0) + 1
        computed, cached = answered.uncached_tokens, answered.cached_tokens
        if computed is not None and cached is not None:
            self.inserted.count(at, computed)
            self.lost.count(at, answered.evicted_tokens)
        if answered.mode is Mode.HYBRID:
            self.core_used_at = at
        if answered.retrieval_s is not None:
            self.retrieval.add(answered.retrieval_s)
        self._learn_finds(answered.found)
        if answered.mode is Mode.RAG and answered.first_turn:
            self._learn_rag(answered)

    def rag(self) -> RagFacts:
        """What retrieval does in the mean."""
        found = self.found_tokens.value(self.rules.found_tokens)
        cached = self.found_cached.value(0.0)
        return RagFacts(
            found_tokens=found,
            cached_share=min(1.0, cached / found) if found > 0 else 0.0,
            retrieval_s=self.retrieval.value(self.rules.retrieval_s),
            scaffold_tokens=self.scaffold.value(0.0),
        )

    def tail_tokens(self) -> float:
        """Fresh tokens of a prompt beside the question and what was found."""
        return self.tail.value(0.0)

    def traffic(self, at: float, engine: EngineLearning) -> Traffic:
        """The rates, this collection's own part of the pool's traffic taken out."""
        return Traffic(
            query_per_s=self.asked.per_s(at),
            stale_share=self.stale.value,
            changed_share=self.changed_share.value(1.0),
            insert_tokens_per_s=max(0.0, engine.inserted.per_s(at) - self.inserted.per_s(at)),
            lost_tokens_per_s=max(0.0, engine.lost.per_s(at) - self.lost.per_s(at)),
        )

    def _learn_rag(self, answered: Answered) -> None:
        computed, found = answered.uncached_tokens, answered.found_tokens
        if computed is None or found is None or answered.cached_tokens is None:
            return
        of_found = min(max(0, answered.cached_tokens - answered.scaffold_tokens), found)
        self.found_tokens.add(found)
        self.found_cached.add(of_found)
        self.scaffold.add(min(answered.scaffold_tokens, answered.cached_tokens))
        self.tail.add(max(0, computed - (found - of_found) - answered.question_tokens))

    def _learn_finds(self, found: Mapping[str, int]) -> None:
        if not found:
            return
        keep = 1 - 1 / _FINDS_MEMORY
        self.found = {document: weight * keep for document, weight in self.found.items()}
        for document, tokens in found.items():
            self.found[document] = self.found.get(document, 0.0) + tokens
        if len(self.found) > MOST_DOCUMENTS:
            most = nlargest(MOST_DOCUMENTS, self.found.items(), key=itemgetter(1))
            self.found = dict(most)


_RATES = ("asked", "changed", "inserted", "lost")
_RECENT = ("changed_share", "found_tokens", "found_cached", "retrieval", "scaffold", "tail")


def to_state(learning: CollectionLearning) -> dict[str, object]:
    """What was learned as JSON values, so that it survives a restart."""
    standing = learning.standing
    return {
        "mode": standing.mode.value,
        "since": standing.since,
        "missed_s": {mode.value: missed for mode, missed in standing.missed_s.items()},
        "revision": learning.revision,
        "stale": {"yes": learning.stale.yes, "no": learning.stale.no},
        "found": learning.found,
        "core": list(learning.core),
        "by_mode": {mode.value: count for mode, count in learning.by_mode.items()},
        **{name: asdict(getattr(learning, name)) for name in _RATES},
        **{name: getattr(learning, name).values for name in _RECENT},
    }


def from_state(state: Mapping[str, object], rules: LearningRules) -> CollectionLearning:
    """What was stored; anything that isn't as it should be is left at its beginning."""
    learning = CollectionLearning(rules=rules, standing=_standing(state))
    revision = state.get("revision")
    learning.revision = revision if isinstance(revision, int) else None
    for name, value in numbers(_object(state, "stale"), "yes", "no").items():
        setattr(learning.stale, name, value)
    for name in _RATES:
        stored = numbers(_object(state, name), "begun_at", "at", "weight")
        if len(stored) == 3:
            for key, value in stored.items():
                setattr(getattr(learning, name), key, value)
    for name in _RECENT:
        stored_values = state.get(name)
        for value in stored_values if isinstance(stored_values, list) else ():
            if isinstance(value, int | float) and math.isfinite(value):
                getattr(learning, name).add(float(value))
    found = _object(state, "found")
    learning.found = numbers(found, *found)
    core = state.get("core")
    learning.core = tuple(map(str, core)) if isinstance(core, Sequence) else ()
    counts = _object(state, "by_mode")
    learning.by_mode = {mode: int(n) for mode, n in _by_mode(counts).items()}
    return learning


def _standing(state: Mapping[str, object]) -> Standing:
    mode, since = state.get("mode"), state.get("since")
    if not isinstance(mode, str) or mode not in DECIDABLE:
        return Standing()
    known = isinstance(since, int | float) and math.isfinite(since)
    return Standing(
        mode=Mode(mode),
        since=float(since) if known and isinstance(since, int | float) else None,
        missed_s=_by_mode(_object(state, "missed_s")),
    )


def _by_mode(values: Mapping[str, object]) -> dict[Mode, float]:
    names = [mode.value for mode in DECIDABLE]
    return {Mode(name): value for name, value in numbers(values, *names).items()}


def _object(state: Mapping[str, object], name: str) -> Mapping[str, object]:
    value = state.get(name)
    return value if isinstance(value, Mapping) else {}
