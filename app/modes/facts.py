"""What a decision needs to know of a collection and of the engine, gathered from where it is kept.

Counting a corpus reads all of its documents, so it is done beside the requests, once for each
revision; a decision takes what is known.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import anyio
import structlog

from app.corpora import Corpora, CorpusStatus
from app.errors import GatewayError
from app.fleet.fleet import Fleet
from app.modes.choosing import Deployment
from app.modes.core import Core, CoreDocument, choose_core
from app.modes.costs import PrefixFacts
from app.modes.learning import CollectionLearning, EngineLearning
from app.modes.loads import TierCosts
from app.tier_policy import RAM, TierPolicy
from app.tiers import sides_of
from cache.break_even import BreakEven
from cache.load_cost import LoadCost
from cache.tier_status import TierStatus
from prompts import PromptError
from retrieval import Collection, Collections, Document, RetrievalError


@dataclass(frozen=True, slots=True, kw_only=True)
class CoreLimits:
    """How large a hybrid's core may be, and how long its documents must have been unchanged."""

    share: float = 0.25
    least_unchanged_s: float = 3600.0


@dataclass(slots=True, kw_only=True)
class _Counted:
    """What was counted at one revision.

    Attributes:
        tokens: document id → tokens by the measure of chunks, in the order of the prompt.
        changed_share: of the corpus before, in the last change; None at the first count.
        core: the chosen core.
    """

    revision: int
    tokens: Mapping[str, int]
    changed_share: float | None
    core: Core
    problem: str | None = None


class ModeFacts:
    """Gathers them for every collection that is asked.

    Args:
        corpora: tells how many tokens a corpus has and where they are.
    """

    def __init__(
        self,
        collections: Collections,
        corpora: Corpora,
        fleet: Fleet,
        *,
        limits: CoreLimits | None = None,
    ) -> None:
        self._collections = collections
        self._corpora = corpora
        self._fleet = fleet
        self._limits = limits or CoreLimits()
        self._counted: dict[str, _Counted] = {}
        self._ram_look: tuple[TierStatus, ...] = ()
        self._into_ram_then = 0.0
        self._log = structlog.get_logger()

    def is_counted(self, collection: Collection) -> bool:
        """Whether its documents were counted at this revision."""
        counted = self._counted.get(collection.id)
        return counted is not None and counted.revision == collection.revision

    def deployment(
        self, collection: Collection, learning: CollectionLearning, engine: EngineLearning
    ) -> Deployment:
        """What is known now, without asking anybody.

        Raises:
            EngineNotReadyError: there is no engine.
        """
        info = self._fleet.view().info
        status = self._corpora.status(collection.id)
        counted = self._counted.get(collection.id)
        fits = status is not None and status.revision == collection.revision
        corpus = corpus_facts(status) if fits else None
        return Deployment(
            window_tokens=info.context_tokens,
            pool_tokens=info.pool_tokens,
            tier=self._load(corpus, learning, engine),
            corpus=corpus,
            core=self._core_facts(counted, status, learning),
            corpus_problem=_problem(status, counted),
            empty=counted is not None
            and counted.revision == collection.revision
            and counted.problem is None
            and not counted.tokens,
        )

    def tier_costs(self, engine: EngineLearning) -> TierCosts:
        """What loads cost by a tier server's own count: from RAM, and from the fastest tier below
        it that is on. Of several servers one that has measured loads stands for all."""
        policies = [side.policy for side in sides_of(self._fleet.replicas) if side.policy]
        if not policies:
            return TierCosts()
        one = next((each for each in policies if _cost(each.found.get(RAM))), policies[0])
        status, found = one.status, one.found
        enabled = {each.name for each in status.adapters if each.enabled} if status else set()
        below = [cost for name in enabled if (cost := _cost(found.get(name))) is not None]
        return TierCosts(
            ram=_cost(found.get(RAM)),
            below=min(below, key=lambda cost: cost.s_per_token, default=None),
            ram_tokens=self._ram_tokens(policies, engine),
        )

    def into_ram_tokens(self, engine: EngineLearning) -> float:
        """All that came into the tiers' RAM since the start, by requests and by warmings."""
        return engine.into_ram_tokens + self._corpora.totals.computed_tokens

    def _ram_tokens(self, policies: Sequence[TierPolicy], engine: EngineLearning) -> float | None:
        """What the tiers' RAM holds, all servers' together: what it held at the last look, and what
        came since. None where one of them doesn't say."""
        into = self.into_ram_tokens(engine)
        looks = tuple(each.status for each in policies if each.status is not None)
        if [*map(id, looks)] != [*map(id, self._ram_look)]:
            self._ram_look, self._into_ram_then = looks, into
        if len(looks) < len(policies) or not all(look.chunk_bytes for look in looks):
            return None
        held, capacity = into - self._into_ram_then, 0.0
        for look in looks:
            tokens_a_byte = look.chunk_tokens / (look.chunk_bytes or 1)
            held += look.ram.used_bytes * tokens_a_byte
            capacity += look.ram.capacity_bytes * tokens_a_byte
        return min(held, capacity) if capacity else held

    def _load(
        self, corpus: PrefixFacts | None, learning: CollectionLearning, engine: EngineLearning
    ) -> LoadCost | None:
        """A load of what the tiers have of a corpus; None where none was measured."""
        since = learning.whole_at_tokens
        return engine.loads.cost(
            self.tier_costs(engine),
            tokens=corpus.tiered_tokens or corpus.tokens if corpus is not None else 0,
            newer_tokens=0.0 if since is None else self.into_ram_tokens(engine) - since,
        )

    async def count(self, collection: Collection, learning: CollectionLearning) -> None:
        """Count a collection's documents and choose its core; a failure is told by the facts."""
        load = partial(self._collections.corpus, collection.id, tenant=collection.tenant)
        try:
            corpus = await anyio.to_thread.run_sync(load)
            status = await self._corpora.status_of(collection)
        except (GatewayError, PromptError, RetrievalError) as error:
            self._counted[collection.id] = _Counted(
                revision=collection.revision,
                tokens={},
                changed_share=None,
                core=Core(),
                problem=str(error),
            )
            return
        documents: Sequence[Document] = corpus.documents
        before = self._counted.get(collection.id)
        tokens = {document.id: document.token_count for document in documents}
        ages = await anyio.to_thread.run_sync(partial(self._ages, collection))
        restricted = corpus.restricted
        counted = _Counted(
            revision=collection.revision,
            tokens=tokens,
            changed_share=_changed_share(before.tokens, tokens) if before else None,
            core=Core() if restricted else self._core(documents, ages, learning, status),
            problem=_RESTRICTED if restricted else None,
        )
        self._counted[collection.id] = counted
        learning.core = counted.core.ids
        if before is not None and before.revision != counted.revision and before.tokens:
            learning.changed_share.add(counted.changed_share or 0.0)

    def left_whole(self, collection: Collection) -> None:
        """The collection isn't shown whole any more."""
        self._corpora.left(collection.id)

    def forget(self, collection_id: str) -> None:
        """The collection is gone."""
        self._counted.pop(collection_id, None)

    def _ages(self, collection: Collection) -> dict[str, float]:
        """Document id → seconds since the newest of its files was added."""
        files = self._collections.list_collection_files(collection.id, tenant=collection.tenant)
        now, ages = time.time(), dict[str, float]()
        for file in files:
            if file.document_id is not None:
                age = now - file.created_at
                ages[file.document_id] = min(age, ages.get(file.document_id, age))
        return ages

    def _core(
        self,
        documents: Sequence[Document],
        ages: Mapping[str, float],
        learning: CollectionLearning,
        status: CorpusStatus,
    ) -> Core:
        ratio = _ratio(status, sum(document.token_count for document in documents))
        found_by_id = learning.found
        candidates = [
            CoreDocument(
                id=document.id,
                position=document.position,
                tokens=round(document.token_count * ratio),
                found=found_by_id.get(document.id, 0.0),
                unchanged_s=ages.get(document.id, 0.0),
            )
            for document in documents
        ]
        return choose_core(
            candidates,
            budget_tokens=self._budget(),
            current=learning.core,
            least_unchanged_s=self._limits.least_unchanged_s,
        )

    def _budget(self) -> int:
        info = self._fleet.view().info
        most = min(info.context_tokens, info.pool_tokens or info.context_tokens)
        return int(most * self._limits.share)

    def _core_facts(
        self, counted: _Counted | None, status: CorpusStatus | None, learning: CollectionLearning
    ) -> PrefixFacts | None:
        """The core's prefix. It was in the pool when a hybrid prompt was answered last; until
        other traffic has gone through the pool it still is, which the rates tell."""
        if counted is None or not counted.core.ids:
            return None
        scaffold = round(learning.scaffold.value(0.0))
        tokens = counted.core.tokens + scaffold
        resident = tokens if learning.core_used_at is not None else scaffold
        return PrefixFacts(tokens=tokens, resident_tokens=resident, covers=counted.core.covers)


_RESTRICTED = "some of its documents are only for certain groups, so it is shown by retrieval"


def corpus_facts(status: CorpusStatus | None) -> PrefixFacts | None:
    """A corpus' prefix; None where its tokens aren't known.

    What isn't known to be in the pool or the tiers is taken to be cold.
    """
    if status is None or status.tokens is None:
        return None
    resident = min(status.resident_tokens or 0, status.tokens)
    tiered = min(status.tiered_tokens or 0, status.tokens)
    return PrefixFacts(
        tokens=status.tokens,
        resident_tokens=resident,
        tiered_tokens=max(0, tiered - resident),
    )


def _problem(status: CorpusStatus | None, counted: _Counted | None) -> str | None:
    if counted is not None and counted.problem is not None:
        return counted.problem
    if status is not None and status.tokens is None:
        return status.problem
    return None


def _cost(found: BreakEven | None) -> LoadCost | None:
    if found is None or found.load_tokens_per_s is None:
        return None
    speed = found.load_tokens_per_s
    return LoadCost(
        latency_s=found.latency_s or 0.0,
        s_per_token=1 / speed if speed > 0 else 0.0,
        loads=found.loads,
        tokens=found.loaded_tokens,
    )


def _ratio(status: CorpusStatus, measured_tokens: int) -> float:
    """Tokens of the served model for each token by the measure of chunks."""
    told = status.document_tokens or status.tokens
    return told / measured_tokens if told and measured_tokens else 1.0


def _changed_share(before: Mapping[str, int], after: Mapping[str, int]) -> float:
    """Share of the corpus behind the first document that isn't the same as before."""
    total = sum(after.values())
    same = 0
    for (old, _), (new, tokens) in zip(before.items(), after.items(), strict=False):
        if old != new:
            break
        same += tokens
    return 1 - same / total if total else 1.0
