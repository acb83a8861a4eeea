"""`services.modes`: which mode answers a question of a collection, and what is learned from it."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial

import anyio
import structlog

from app.errors import EngineNotReadyError, InvalidRequestError
from app.fleet.fleet import Fleet
from app.modes.choosing import Question, choose, priced, ruled
from app.modes.costs import RagFacts
from app.modes.facts import ModeFacts
from app.modes.gate import GateRules, GateVerdict, QualityScores, judge_switch
from app.modes.learning import (
    Answered,
    CollectionLearning,
    EngineLearning,
    LearningRules,
    from_state,
    to_state,
)
from app.modes.prices import Decision, ModeCost
from app.modes.store import ModeStore, StoredScores
from app.modes.switch import SwitchRules
from app.modes.warming import WarmingAside
from app.schemas import Mode
from retrieval import Collection

# A question waits so long for its collection to be counted; a large one is answered by retrieval.
_COUNT_S = 0.25
_SAVE_S = 10.0
_FORGET_S = 600.0
# After so many questions the core is chosen anew, by what was found.
_CORE_EVERY = 25


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyRules:
    """The rules that operators set; `default` is the mode where nothing else says one."""

    default: Mode = Mode.AUTO
    switch: SwitchRules = field(default_factory=SwitchRules)
    gate: GateRules = field(default_factory=GateRules)
    learning: LearningRules = field(default_factory=LearningRules)


class ModePolicy:
    """Decides for every collection, and learns from every answer."""

    def __init__(
        self,
        facts: ModeFacts,
        warming: WarmingAside,
        fleet: Fleet,
        store: ModeStore,
        *,
        rules: PolicyRules | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.facts = facts
        self.rules = rules or PolicyRules()
        self.engine = EngineLearning()
        self._warming = warming
        self._fleet = fleet
        self._store = store
        self._clock = clock
        self._scores: dict[str, StoredScores] = store.scores()
        self._learned = {
            collection_id: from_state(state, self.rules.learning)
            for collection_id, state in store.load().items()
        }
        self._reasons: dict[str, Decision] = {}
        # A verdict draws thousands of samples: once for each evaluation, revision and model.
        self._verdicts: dict[str, tuple[object, dict[tuple[Mode, Mode], GateVerdict]]] = {}
        self._unsaved: set[str] = set()
        self._uncounted: dict[str, Collection] = {}
        self._since_core: dict[str, int] = {}
        self._wake = anyio.Event()
        self._counted = anyio.Event()
        self._model: str | None = None
        self._running = 0
        self._forgotten_at = 0.0
        self._log = structlog.get_logger()

    async def choose(
        self,
        collection: Collection,
        *,
        asked: Mode | None = None,
        pinned: Mode | None = None,
        filtered: bool = False,
        conversation_mode: Mode | None = None,
        question_tokens: int = 32,
        answer_tokens: int = 1,
    ) -> Decision:
        """The mode for a question. `pinned` is taken from the collection where it isn't given.

        Raises:
            InvalidRequestError: filters or groups together with a mode that shows all documents.
            EngineNotReadyError: there is no engine.
        """
        if filtered and asked in (Mode.CAG, Mode.HYBRID):
            raise InvalidRequestError(
                f"mode {asked.value} shows whole documents to everybody; with filters or groups "
                "ask with mode rag or auto",
                param="foreword.mode",
            )
        question = Question(
            asked=asked,
            pinned=pinned or self.pinned(collection),
            filtered=filtered,
            conversation_mode=conversation_mode,
            tokens=question_tokens,
            answer_tokens=answer_tokens,
        )
        learning, at = self._learning_of(collection), self._clock()
        learning.ask(at, collection.revision)
        self._look_at_engine()
        await self._have_counted(collection, question)
        decision = self._decide(collection, learning, question, at)
        self._unsaved.add(collection.id)
        self._reasons[collection.id] = decision
        return decision

    def begun(self) -> int:
        """A request is sent to the engine; says how many are running there already."""
        self._running += 1
        return self._running - 1

    def answered(self, answered: Answered) -> None:
        """A request has ended, of a collection or not; learns from it."""
        if answered.others is not None:
            self._running -= 1
        at = self._clock()
        # Only loads are measured by them.
        tiers = self.facts.tier_costs(self.engine) if answered.loaded_tokens else None
        self.engine.learn(answered, at, tiers=tiers)
        learning = self._learned.get(answered.collection_id or "")
        if learning is not None and answered.collection_id is not None:
            learning.learn(answered, at)
            if answered.mode is Mode.CAG:
                learning.whole_at_tokens = self.facts.into_ram_tokens(self.engine)
            self._unsaved.add(answered.collection_id)

    def core(self, collection: Collection) -> tuple[str, ...]:
        """Ids of the documents of a hybrid prompt's core, in their order; none before one is."""
        return self._learning_of(collection).core

    async def save_scores(self, collection: Collection, scores: QualityScores) -> StoredScores:
        """Keep an evaluation; it gates the next switch."""
        at = self._clock()
        write = partial(self._store.save_scores, collection.id, scores, at)
        stored = await anyio.to_thread.run_sync(write)
        self._scores[collection.id] = stored
        return stored

    def learned(self, collection: Collection) -> CollectionLearning:
        """What is known of a collection."""
        return self._learning_of(collection)

    def scores(self, collection_id: str) -> StoredScores | None:
        """A collection's last evaluation."""
        return self._scores.get(collection_id)

    def last(self, collection_id: str) -> Decision | None:
        """The last decision since the gateway started."""
        return self._reasons.get(collection_id)

    def gate(self, collection: Collection) -> Callable[[Mode, Mode], GateVerdict]:
        """(there, here) → whether quality lets the collection go there."""
        stored = self._scores.get(collection.id)
        model = self._fleet.view().info.served_name

        about = (stored, collection.revision, model)
        known = self._verdicts.get(collection.id)
        if known is None or known[0] != about:
            known = self._verdicts[collection.id] = (about, {})
        verdicts = known[1]

        def verdict(there: Mode, here: Mode) -> GateVerdict:
            if (there, here) not in verdicts:
                verdicts[there, here] = judge_switch(
                    stored.scores if stored else None,
                    there=there,
                    here=here,
                    revision=collection.revision,
                    model=model,
                    rules=self.rules.gate,
                )
            return verdicts[there, here]

        return verdict

    async def count(self, collection: Collection) -> None:
        """Count a collection now, for a plan.

        Raises:
            EngineNotReadyError: there is no engine.
        """
        if not self.facts.is_counted(collection):
            await self.facts.count(collection, self._learning_of(collection))

    def costs(self, collection: Collection, *, question_tokens: int) -> Mapping[Mode, ModeCost]:
        """What a question would cost in each mode now; decides nothing.

        Raises:
            EngineNotReadyError: there is no engine.
        """
        self._look_at_engine()
        learning = self._learning_of(collection)
        deployment = self.facts.deployment(collection, learning, self.engine)
        question = Question(tokens=question_tokens)
        return priced(learning, self.engine, question, deployment, at=self._clock())

    def rag(self, collection: Collection) -> RagFacts:
        """What retrieval does in the mean, as it is priced.

        Raises:
            EngineNotReadyError: there is no engine.
        """
        learning = self._learning_of(collection)
        deployment = self.facts.deployment(collection, learning, self.engine)
        return learning.rag().within(deployment.corpus)

    def now(self) -> float:
        """Seconds since the epoch, by the clock that rates are kept on."""
        return self._clock()

    async def forget_gone(self) -> None:
        """Forget what was learned of collections that are gone."""
        for collection_id in await anyio.to_thread.run_sync(self._store.forget_gone):
            self._learned.pop(collection_id, None)
            self._scores.pop(collection_id, None)
            self._reasons.pop(collection_id, None)
            self._verdicts.pop(collection_id, None)
            self._since_core.pop(collection_id, None)
            self.facts.forget(collection_id)
            self._warming.forget(collection_id)

    async def watch(self) -> None:
        """Count what wasn't counted, and write down what was learned, for ever and at the end."""
        try:
            async with anyio.create_task_group() as tasks:
                while True:
                    self._wake = anyio.Event()
                    await self._forget_now_and_then()
                    self._warming.start(tasks)
                    await self._count_all()
                    await self.save()
                    with anyio.move_on_after(_SAVE_S):
                        await self._wake.wait()
        finally:
            with anyio.CancelScope(shield=True):
                await self.save()

    async def _forget_now_and_then(self) -> None:
        if self._clock() - self._forgotten_at >= _FORGET_S:
            await self.forget_gone()
            self._forgotten_at = self._clock()

    async def save(self) -> None:
        """Write down what was learned since the last time."""
        states = {
            each: to_state(self._learned[each]) for each in self._unsaved if each in self._learned
        }
        self._unsaved.clear()
        await anyio.to_thread.run_sync(self._store.save, states, self._clock())

    def _decide(
        self,
        collection: Collection,
        learning: CollectionLearning,
        question: Question,
        at: float,
    ) -> Decision:
        deployment = self.facts.deployment(collection, learning, self.engine)
        decision = ruled(question, deployment)
        if decision is None:
            before = learning.standing.mode
            decision = choose(
                learning,
                self.engine,
                question,
                deployment,
                gate=self.gate(collection),
                rules=self.rules.switch,
                at=at,
            )
            if before is Mode.CAG and learning.standing.mode is not Mode.CAG:
                self.facts.left_whole(collection)
            decision = self._not_waiting(collection, decision)
        else:
            costs = priced(learning, self.engine, question, deployment, at=at)
            decision = replace(decision, costs=costs, question_tokens=question.tokens)
        return replace(decision, collection_id=collection.id)

    def _not_waiting(self, collection: Collection, decision: Decision) -> Decision:
        """The decision; by retrieval where the corpus takes too long to be warmed first."""
        costs = decision.costs
        if decision.mode is not Mode.CAG or not costs[Mode.RAG].possible:
            return decision
        warm_s = costs[Mode.CAG].warm_s
        if not self._warming.takes_over(collection, warm_s=warm_s):
            return decision
        self._wake.set()
        reason = (
            f"{decision.reason}; warming takes about {warm_s:.1f} s and is done aside, so this "
            "question is answered by retrieval"
        )
        return replace(decision, mode=Mode.RAG, reason=reason)

    def pinned(self, collection: Collection) -> Mode | None:
        """The mode that the collection, or the settings for all, are pinned to."""
        if collection.mode is not None:
            return Mode(collection.mode)
        return None if self.rules.default is Mode.AUTO else self.rules.default

    def _learning_of(self, collection: Collection) -> CollectionLearning:
        learning = self._learned.get(collection.id)
        if learning is None:
            learning = CollectionLearning(rules=self.rules.learning)
            self._learned[collection.id] = learning
        return learning

    def _look_at_engine(self) -> None:
        """Take the engine's measured speed; forget what was learned of another engine."""
        info = self._fleet.view().info
        if self._model is not None and info.model_path != self._model:
            self.engine.new_engine()
        self._model = info.model_path
        speed = self._fleet.speed
        if speed is not None:
            self.engine.ttft.expect_speed(speed.tokens_per_s)

    async def _have_counted(self, collection: Collection, question: Question) -> None:
        """Have the collection counted; wait a little where the decision hangs on it."""
        asked = self._since_core.get(collection.id, 0) + 1
        self._since_core[collection.id] = asked % _CORE_EVERY
        is_counted = self.facts.is_counted(collection)
        if is_counted and asked < _CORE_EVERY:
            return
        self._uncounted[collection.id] = collection
        self._wake.set()
        if is_counted or question.filtered or question.conversation_mode is not None:
            return
        with anyio.move_on_after(_COUNT_S):
            while not self.facts.is_counted(collection):
                await self._counted.wait()

    async def _count_all(self) -> None:
        while self._uncounted:
            _, collection = self._uncounted.popitem()
            try:
                await self.facts.count(collection, self._learning_of(collection))
            except EngineNotReadyError:
                return  # the next question asks for it again
            finally:
                self._counted.set()
                self._counted = anyio.Event()
