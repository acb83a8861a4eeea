"""An engine as the gateway sees it: its settings, its tokenizer, and whether the two agree.

The view is made when the engine first answers, and made again after it was away, since a restarted
engine may serve another model. An engine that was seen to serve one tenant's KV to another is
refused: there is no view of it.
"""

import math
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import anyio
import structlog

from app.background import Watch
from app.crosscheck import EngineCounters
from app.engine import EngineClient, KvEventsAddress
from app.engine_check import EngineCheck
from app.engine_speed import EngineSpeed
from app.errors import EngineError, EngineLeaksError, EngineNotReadyError, EngineTimeoutError
from app.fleet.breaker import Breaker
from app.fleet.load import LoadMeter
from app.fleet.states import ReplicaState
from app.fleet.waiting import Waiting
from app.isolation import IsolationVerdict, check_isolation
from app.kv_events import KvEventFollower, KvEventSource
from app.parity import Parity, check_parity
from app.replica_view import ReplicaView
from app.routing import ReplicaLoad
from app.settings import TiersSettings
from app.tiers import TierSide
from app.tokenizers import Tokenizers
from cache.prefix_index import PrefixIndex
from prompts.errors import ChatTemplateError, TokenizerNotFoundError

_POLL_S = 1.0
_READY_S = 5.0


def _nothing(_: object = None) -> None:
    """What a replica that belongs to no fleet is told."""


class Replica:
    """Watches one engine, and knows how much it has to do.

    Attributes:
        problem: why it gets no requests, as far as the engine itself is the reason.
        mismatch: what keeps it from standing beside the others; the fleet finds it out.
        is_warm: whether it has computed what it should before its first request.
        meetings: how often it was met; each but the first was after it had been away.
        removed: whether the fleet has forgotten it; what ends there since teaches nothing.

    Args:
        try_again_s: how long after a trial of its isolation that proved nothing, or a leak, the
            next one is made.
        give_up_s: how long it may answer nothing, before requests that wait there go elsewhere.
        index_of: where its KV events go; None: nowhere for now.
        kv_events: where those are; None: as the engine tells itself.
        tier: the tiers that it loads from; by default some that nobody knows of.
    """

    def __init__(
        self,
        name: str,
        client: EngineClient,
        *,
        tokenizer_folder: Path | None,
        try_again_s: float = 30.0,
        give_up_s: float = 30.0,
        tokenizers: Tokenizers | None = None,
        index_of: Callable[["Replica"], PrefixIndex | None] = _nothing,
        kv_events: KvEventsAddress | None = None,
        tier: TierSide | None = None,
    ) -> None:
        self.name = name
        self.client = client
        self.counters = EngineCounters(client)
        self.meter = LoadMeter()
        self.speed = EngineSpeed(client, meter=self.meter)
        self.events = KvEventFollower(replica=name, source=self._source)
        self.tier = tier or TierSide("", None, TiersSettings())
        self.check = EngineCheck(self.counters, chunk_tokens=self.tier.chunk_tokens)
        self.breaker = Breaker()
        self.waiting = Waiting()
        self.mismatch: str | None = None
        self.is_warm = False
        self.meetings = 0
        self.cordoned = False
        self.draining = False
        self.removed = False
        self._folder = tokenizer_folder
        self._try_again_s = try_again_s
        self._give_up_s = give_up_s
        self._silent_since: float | None = None
        self._tokenizers = tokenizers or Tokenizers()
        self._index_of = index_of
        self._kv_events = kv_events
        self._view: ReplicaView | None = None
        self._was_met = False
        self._problem: str | None = None
        self._leak: str | None = None
        self._tried_at = 0.0
        self._look = anyio.Event()
        self._log = structlog.get_logger(replica=name)

    def view(self) -> ReplicaView:
        """What is known of the engine.

        Raises:
            EngineNotReadyError: it hasn't answered yet, or is away.
            EngineLeaksError: it doesn't keep tenants apart.
        """
        if self._leak is not None:
            raise EngineLeaksError(self.client.url, self._leak)
        if self._view is None:
            raise EngineNotReadyError(self.client.url)
        return self._view

    @property
    def seen(self) -> ReplicaView | None:
        """The same, None where there is none."""
        return self._view

    @property
    def problem(self) -> str | None:
        """Why it gets no requests, where the engine is the reason."""
        return self._problem or self.mismatch

    @property
    def state(self) -> ReplicaState:
        """What may be sent to it, and why not."""
        if self.draining:
            return ReplicaState.DRAINING
        if self._leak is not None or (self._view is not None and self.mismatch is not None):
            return ReplicaState.REFUSED
        if self._view is None:
            return ReplicaState.AWAY if self._was_met else ReplicaState.STARTING
        if self.cordoned:
            return ReplicaState.CORDONED
        return ReplicaState.READY if self.is_warm else ReplicaState.WARMING

    @property
    def is_ready(self) -> bool:
        """Whether it may be sent requests: the same as a `state` of READY, in one step."""
        return (
            self.is_warm
            and self._view is not None
            and self._leak is None
            and self.mismatch is None
            and not (self.cordoned or self.draining)
        )

    @property
    def fits(self) -> bool:
        """Whether it was met, and serves what the others do."""
        return self._view is not None and self.mismatch is None

    @property
    def load(self) -> ReplicaLoad:
        """What is known of its work."""
        speed = self.speed.speed
        return self.meter.load(tokens_per_s=speed.tokens_per_s if speed else None)

    @property
    def start(self) -> str:
        """Tells two starts of the engine apart, unless its seed was fixed; may be empty."""
        seed = self._view.info.settings.get("random_seed") if self._view is not None else None
        return "" if seed is None else str(seed)

    @property
    def address(self) -> KvEventsAddress | None:
        """Where its KV events are, as far as known."""
        if self._kv_events is not None:
            return self._kv_events
        return self._view.info.kv_events if self._view is not None else None

    def watches(self) -> tuple[Watch, ...]:
        """What is to run beside the requests, for ever; the fleet looks at the engine itself."""
        own = self.tier.watches() if self.tier.name else ()
        return (self.counters.watch, self.speed.watch, self.events.follow, *own)

    async def watch(self) -> None:
        """Keep the view true, for ever."""
        while True:
            await self.refresh()
            await self.pause()

    def look_now(self) -> None:
        """See at once whether it is still there: a request could not reach it."""
        self._look.set()

    async def pause(self) -> None:
        """Until the next look is due."""
        with anyio.move_on_after(_POLL_S):
            await self._look.wait()
        self._look = anyio.Event()

    async def refresh(self) -> None:
        """Look at the engine once."""
        try:
            ready = None
            with anyio.move_on_after(_READY_S):
                ready = await self.client.ready()
            self._heard(ready is not None)
            if ready is None:
                self._lose(f"it hasn't answered for {_READY_S:g} s")
            elif not ready:
                self._lose("it is starting")
            elif self._is_due():
                await self._try(self._view or await self._meet())
        except EngineError as error:
            self._heard(not isinstance(error, EngineTimeoutError))
            self._lose(str(error))

    def close(self) -> None:
        """Drop its connections, the events' and its own tiers' too."""
        self.counters.looks.close()
        self.events.close()
        self.client.close()
        if self.tier.name:
            self.tier.close()

    @property
    def silent_s(self) -> float:
        """How long it hasn't answered the look for it, whatever it would have said."""
        return 0.0 if self._silent_since is None else time.monotonic() - self._silent_since

    def _heard(self, answered: bool) -> None:
        """What waits there goes elsewhere when it has been silent for too long."""
        if answered:
            self._silent_since = None
            return
        if self._silent_since is None:
            self._silent_since = time.monotonic() - _READY_S
        if self.silent_s >= self._give_up_s and (count := self.waiting.give_up()):
            self._log.warning("engine_given_up", silent_s=round(self.silent_s), requests=count)

    def _source(self) -> KvEventSource | None:
        address, index = self.address, self._index_of(self)
        if address is None or index is None or self._view is None:
            return None
        return KvEventSource(address=address, index=index)

    def _is_due(self) -> bool:
        """Whether the engine is to be met, or tried again."""
        view = self._view
        if view is not None and view.isolation.verdict is IsolationVerdict.PROVEN:
            return False
        is_new = view is None and self._leak is None
        return is_new or time.monotonic() - self._tried_at >= self._try_again_s

    async def _try(self, view: ReplicaView) -> None:
        """Give the view out, unless the engine leaks."""
        isolation = await check_isolation(self.client, view.info)
        self._tried_at = time.monotonic()
        if self._leak is not None and isolation.verdict is IsolationVerdict.UNPROVEN:
            return  # what was seen to leak has to show that it doesn't any more
        if isolation.verdict is IsolationVerdict.LEAKS:
            self._refuse(isolation.problem or "")
            return
        if self._view is None:
            self._met(view, isolation.verdict)
        self._view, self._leak, self._problem = replace(view, isolation=isolation), None, None

    def _met(self, view: ReplicaView, isolation: IsolationVerdict) -> None:
        """It may be another process than before: what was known of that one is over."""
        self._log.info("engine_met", parity=view.parity.ok, isolation=isolation.value)
        self._was_met, self.is_warm, self.mismatch = True, False, None
        self.meetings += 1
        self.breaker.reset()
        self.meter.restarted()

    def _refuse(self, evidence: str) -> None:
        self._view, self._leak = None, evidence
        self._problem = str(EngineLeaksError(self.client.url, evidence))
        self._log.error("engine_refused", problem=self._problem)

    def _lose(self, problem: str) -> None:
        if self._view is not None:
            self._log.warning("engine_lost", problem=problem)
        # What was seen to leak stays refused, but is tried as soon as it is back.
        self._view, self._tried_at = None, -math.inf
        self._problem = problem

    async def _meet(self) -> ReplicaView:
        info = await self.client.info()
        folder = self._folder or Path(info.tokenizer_path)
        try:
            tokenizer = await self._tokenizers.load(folder)
            parity = await check_parity(self.client, tokenizer)
        except (TokenizerNotFoundError, ChatTemplateError, OSError, ValueError) as error:
            return ReplicaView(
                info=info, tokenizer=None, parity=Parity(ok=False, problem=str(error))
            )
        return ReplicaView(info=info, tokenizer=tokenizer, parity=parity)
