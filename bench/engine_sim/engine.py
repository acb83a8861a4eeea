"""The running engine: the scheduler driven through real time, and answers handed out as they grow.

All calls belong to one event loop.
"""

import time
from collections import deque
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import anyio

from bench.engine_sim.changes import Namespace
from bench.engine_sim.clock import Pacer
from bench.engine_sim.config import SimulatorConfig
from bench.engine_sim.events import EventPublisher
from bench.engine_sim.faults import Fault, FaultKind, FaultPlan
from bench.engine_sim.language import Language, Speaker
from bench.engine_sim.limits import RequestRefusedError, check_length, new_tokens_allowed
from bench.engine_sim.metrics import EngineMetrics
from bench.engine_sim.pool import KvPool
from bench.engine_sim.request import EngineRequest
from bench.engine_sim.scheduler import Scheduler
from bench.engine_sim.tokens import ModelText, TextStream

_ANSWERED_KEPT = 50_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """What a client asks the engine to generate.

    Attributes:
        max_new_tokens: None: as many as the window allows.
        labels: custom labels, already cut down to those that are counted.
        said: the answer, where the model is set to make calls.
    """

    rid: str
    prompt: tuple[int, ...]
    namespace: Namespace
    max_new_tokens: int | None
    stops: tuple[str, ...] = ()
    stop_ids: tuple[int, ...] = ()
    ignore_eos: bool = False
    priority: int | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    streaming: bool = False
    said: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """A request that has ended.

    Attributes:
        submitted_at: when it came, by the machine's monotonic clock.
    """

    submitted_at: float
    prompt_tokens: int
    cached_tokens: int


@dataclass(slots=True, eq=False)
class Answer:
    """A request in the engine, as its client sees it."""

    request: EngineRequest
    ask: Ask
    submitted_at: float = field(default_factory=time.monotonic)
    _changed: anyio.Event = field(default_factory=anyio.Event)

    async def progress(self) -> AsyncIterator[None]:
        """Yields when there is more to read, the last time when the request has ended.

        Like the engine, several tokens may come in one turn when the reader is slow.
        """
        finished = False
        while not finished:
            await self._changed.wait()
            self._changed = anyio.Event()
            finished = self.request.finish is not None
            yield

    async def finished(self) -> None:
        """Return when the request has ended."""
        async for _ in self.progress():
            pass

    def notify(self) -> None:
        self._changed.set()


class SimulatedEngine:
    """One simulated replica."""

    def __init__(self, config: SimulatorConfig, model: ModelText) -> None:
        """Raises SimulatorStartError: an endpoint for KV events can't be taken."""
        self.config = config
        self.model = model
        self.metrics = EngineMetrics(config)
        self.scheduler = Scheduler(config=config, pool=KvPool(config))
        self.faults = FaultPlan()
        self.publisher = (
            EventPublisher(config.events, page_size=config.page_size) if config.events else None
        )
        self._language = Language(
            words=model.words(),
            eos=model.eos,
            eos_every_tokens=config.eos_every_tokens,
            opening=tuple(model.encode(config.opening, add_special_tokens=False)),
        )
        self.answered: deque[Answered] = deque(maxlen=_ANSWERED_KEPT)
        self._answers: dict[str, Answer] = {}
        self._wake = anyio.Event()

    async def run(self) -> None:
        """Compute until cancelled."""
        pacer = Pacer(self.config.clock.speedup)
        while True:
            if not self.scheduler.busy:
                await self._wake.wait()
                self._wake = anyio.Event()
                continue
            step = self.scheduler.begin()
            self._publish()
            await pacer.spend(step.duration_s)
            for request in self.scheduler.complete(step):
                self._tell(request)
            self._publish()

    def submit(self, ask: Ask) -> Answer:
        """Queue a request.

        Raises:
            RequestRefusedError: prompt or answer would be too long, or the rid is in use.
        """
        if ask.rid in self._answers:
            raise RequestRefusedError(f"Duplicate request ID detected: {ask.rid}")
        if not all(0 <= token < self.model.vocabulary_size for token in ask.prompt):
            # The real engine takes such a prompt, and its scheduler dies of it.
            raise RequestRefusedError("input_ids has a token outside the vocabulary.")
        check_length(self.config, len(ask.prompt), ask.max_new_tokens)
        request = EngineRequest(
            rid=ask.rid,
            prompt=ask.prompt,
            namespace=Namespace() if self.faults.ignores_salts() else ask.namespace,
            max_new_tokens=new_tokens_allowed(self.config, len(ask.prompt), ask.max_new_tokens),
            speaker=Speaker(self._speech(ask.said), ask.prompt),
            text=TextStream(self.model, ask.stops),
            stop_ids=self._stop_ids(ask),
            may_end_itself=not ask.ignore_eos,
            priority=ask.priority,
        )
        answer = self._answers[ask.rid] = Answer(request, ask)
        self.scheduler.add(request)
        self._wake.set()
        return answer

    def abort(self, rid: str) -> None:
        """End a request where it is; an unknown or finished one is left alone."""
        answer = self._answers.get(rid)
        if answer is not None:
            self.scheduler.abort(answer.request)
            self._tell(answer.request)

    def abort_all(self) -> None:
        for rid in list(self._answers):
            self.abort(rid)

    def flush(self) -> bool:
        """Forget the engine's own cache, not the tier's; refused while it works."""
        if self.scheduler.busy:
            return False
        self.scheduler.pool.tree.clear()
        self._publish()
        return True

    def order(self, fault: Fault) -> None:
        """Let something go wrong from now on."""
        if fault.kind is FaultKind.LOSE_EVENTS and self.publisher is not None:
            self.publisher.lose_next += fault.times or 0
            return
        self.faults.add(fault)
        self._apply_tier_faults()

    def heal(self) -> None:
        """Take all faults back."""
        self.faults.clear()
        if self.publisher is not None:
            self.publisher.lose_next = 0
        self._apply_tier_faults()

    def state(self) -> dict[str, Any]:
        """What only a simulator can tell."""
        pool = self.scheduler.pool
        return {
            "engine": "simulated",
            "tree_tokens": pool.tree.total_tokens,
            "protected_tokens": pool.tree.protected_tokens,
            "held_tokens": pool.held_tokens,
            "tier_tokens": None if pool.tier is None else pool.tier.used_tokens,
            "simulated_s": self.scheduler.now_s,
            "event_batches": None if self.publisher is None else self.publisher.published,
            "subscriptions": None if self.publisher is None else self.publisher.subscriptions(),
            "faults": [fault.kind.value for fault in self.faults.due],
        }

    def _speech(self, said: str) -> Language:
        """Words of sense or none; what is set to be said has an end."""
        if not said:
            return self._language
        ids = self.model.encode(said, add_special_tokens=False)
        ended = [] if self.model.eos is None else [self.model.eos]
        return replace(self._language, opening=(*ids, *ended))

    def _stop_ids(self, ask: Ask) -> frozenset[int]:
        """`ignore_eos` ignores the stop tokens of the request too, as a real engine did."""
        if ask.ignore_eos:
            return frozenset()
        ends = () if self.model.eos is None else (self.model.eos,)
        return frozenset((*ask.stop_ids, *ends))

    def _apply_tier_faults(self) -> None:
        self.scheduler.tier_delay_s = self.faults.tier_delay_s()
        self.scheduler.pool.tier_down = self.faults.tier_down()

    def _tell(self, request: EngineRequest) -> None:
        answer = self._answers[request.rid]
        answer.notify()
        if request.finish is not None:
            del self._answers[request.rid]
            self.answered.append(
                Answered(
                    submitted_at=answer.submitted_at,
                    prompt_tokens=len(request.prompt),
                    cached_tokens=request.cached.tokens,
                )
            )
            self.metrics.finished(request, answer.ask.labels, streaming=answer.ask.streaming)

    def _publish(self) -> None:
        if self.publisher is not None and (changes := self.scheduler.pool.tree.take_changes()):
            self.publisher.publish(changes)
