"""Follows an engine's KV events into the prefix index, so that it knows what the engine holds.

Subscribed first; then everything that the engine still remembers is asked for again. Batches that
were missed are asked for too, and where the engine has forgotten them, the index is told that
evidence is missing. No request ever waits for any of this, but for a bounded moment at its end.

Source: sglang 0.5.23 srt/disaggregation/kv_events.py (ZmqEventPublisher).
"""

import time
from collections.abc import Callable
from contextlib import aclosing
from dataclasses import dataclass, field

import anyio
import anyio.lowlevel
import structlog
import zmq
import zmq.asyncio

from app.engine import KvEventsAddress
from app.kv_arrivals import Arrivals, Cuts
from app.kv_replay import replayed
from cache.errors import KvEventError, PageSizeError
from cache.kv_events import (
    AllBlocksCleared,
    Arrival,
    Arrived,
    BlockRemoved,
    BlockStored,
    EventBatch,
    EventSequence,
    KvEvent,
    StoredTogether,
    UnreadEvent,
    decode_batch,
)
from cache.prefix_index import PrefixIndex

_LOOK_S = 0.5
# A subscription takes a moment to reach the engine; what it sent meanwhile is asked for again.
_JOIN_S = 0.3
_CATCH_UP_S = 5.0
_QUEUE_MESSAGES = 100_000
# Waking up costs more than a batch does. Whoever waits for one has it at once.
_GATHER_S = 0.01
# Pages that were stored wait for others, since one after another they take half the time, and an
# answer's are one with its prompt's; nothing else does, and nothing overtakes them.
_STORE_S = 0.05
_STORE_AT_ONCE = 64
_AT_HAND = int(zmq.NOBLOCK)  # a plain number: enumerations are slow to read
# Batches that are taken before others have their turn on the event loop.
_AT_ONCE = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class KvEventSource:
    """Where events come from, and the index that they go to."""

    address: KvEventsAddress
    index: PrefixIndex


@dataclass(slots=True, kw_only=True)
class KvEventsStatus:
    """Counts since the start, and when a batch came last.

    `batches` are those that the index has. `problem` is why the engine's holdings
    can't be followed now.
    """

    batches: int = 0
    restarts: int = 0
    gaps: int = 0
    unfilled_gaps: int = 0
    heard_at: float | None = None
    problem: str | None = None


@dataclass(slots=True, kw_only=True)
class KvEventFollower:
    """One replica's events. All belongs to one event loop.

    `source` says where they are at the moment; None: the engine is away or publishes none.
    """

    replica: str
    source: Callable[[], KvEventSource | None]
    clock: Callable[[], float] = time.monotonic
    status: KvEventsStatus = field(default_factory=KvEventsStatus)
    _made: "zmq.Context[zmq.Socket[bytes]] | None" = None  # once there is something to follow
    _index: PrefixIndex | None = None
    _sequence: EventSequence = field(default_factory=EventSequence)
    _last: tuple[int, float] | None = None  # number and time of the last batch that was applied
    _news: anyio.Event | None = None  # while somebody waits
    _arrivals: Arrivals | None = None  # while it follows a source
    _stored: StoredTogether = field(default_factory=StoredTogether)  # not yet in the index
    _store_at: float | None = None  # while there are any
    _taken: int = 0  # batches, those included whose pages aren't in the index

    async def follow(self) -> None:
        """For ever."""
        while True:
            source = self.source()
            if source is None:
                await anyio.sleep(_LOOK_S)
                continue
            try:
                await self._follow(source)
            except zmq.ZMQError as error:
                self._trouble(f"{source.address.events}: {error}")
                await anyio.sleep(_LOOK_S)

    async def wait_for_news(self, within_s: float) -> None:
        """Wait until a further batch has been taken, but no longer than that."""
        if self._news is None:
            self._news = anyio.Event()
        if self._arrivals is not None:
            self._arrivals.hurry()
        with anyio.move_on_after(within_s):
            await self._news.wait()

    def close(self) -> None:
        if self._made is not None:
            self._made.destroy(linger=0)

    @property
    def _context(self) -> "zmq.Context[zmq.Socket[bytes]]":
        if self._made is None:
            self._made = zmq.Context()
        return self._made

    async def _follow(self, source: KvEventSource) -> None:
        """Take what comes from one source, until there is another."""
        address = source.address
        if source.index is not self._index:
            self._index, self._last = source.index, None
            self._sequence.forget()
        with self._context.socket(zmq.SUB) as socket:
            socket.setsockopt(zmq.RCVHWM, _QUEUE_MESSAGES)
            socket.setsockopt(zmq.LINGER, 0)
            socket.subscribe(address.topic)
            cuts = Cuts(socket)
            try:
                socket.connect(address.events)
                with Arrivals(socket, gather_s=_GATHER_S) as arrivals:
                    self._arrivals = arrivals
                    await self._listen(socket, arrivals, cuts, source)
                    self._store()
            except zmq.ZMQError:
                self._store()
                raise
            finally:
                self._arrivals = None
                cuts.close()

    async def _listen(
        self,
        messages: "zmq.Socket[bytes]",
        arrivals: Arrivals,
        cuts: Cuts,
        source: KvEventSource,
    ) -> None:
        address = source.address
        if not await self._catch_up(address):
            self._lost()
        due = self.clock() + _JOIN_S
        while self.source() == source:
            until = due if self._store_at is None else min(due, self._store_at)
            has_come = await arrivals.wait(max(0.0, min(_LOOK_S, until - self.clock())))
            if cuts.happened() and not await self._catch_up(address):
                self._silenced(address)
            if has_come:
                await self._drain(messages, address)
                if self._news is not None:
                    arrivals.hurry()
            if self._store_at is not None and self.clock() >= self._store_at:
                self._store()
            if self.clock() >= due:
                await self._catch_up(address)
                due = self.clock() + _CATCH_UP_S

    async def _drain(self, messages: "zmq.Socket[bytes]", address: KvEventsAddress) -> None:
        for _ in range(_AT_ONCE):
            # Part by part: `recv_multipart` asks by slow means whether there is more.
            try:
                part = messages.recv(_AT_HAND, copy=False)
            except zmq.Again:
                return
            parts = [part]
            while part.more:
                part = messages.recv(_AT_HAND, copy=False)
                parts.append(part)
            _, number, payload = parts
            try:
                batch = decode_batch(payload.bytes)
            except KvEventError as error:
                self._trouble(str(error))
                continue  # its number will be missing, and asked for
            place = int.from_bytes(number.bytes, "big")
            arrived = self._sequence.accept(place, batch.ts)
            if arrived.kind is Arrival.NEXT:
                self._apply(place, batch)
            elif arrived.kind is not Arrival.DUPLICATE:
                await self._after_others(arrived, place, batch, address)
        await anyio.lowlevel.checkpoint()

    async def _after_others(
        self, arrived: Arrived, number: int, batch: EventBatch, address: KvEventsAddress
    ) -> None:
        """Apply a batch that came by itself, after those that are missing before it."""
        if arrived.kind is Arrival.RESTARTED:
            self._restarted()
        joined = arrived.kind is Arrival.GAP and self._last is None and address.replay is None
        if arrived.missing and not joined:
            self.status.gaps += 1
            if not await self._catch_up(address, before=number):
                self._lost()
        self._apply(number, batch)

    async def _catch_up(self, address: KvEventsAddress, *, before: int | None = None) -> bool:
        """Apply what came after the last batch and `before` this one; False: nobody answers."""
        if address.replay is None:
            return False
        try:
            if not await self._replay(address.replay, before):
                self._restarted()
                if before is None:
                    self._sequence.forget()
                await self._replay(address.replay, before)
        except TimeoutError:
            self._trouble(f"{address.replay} doesn't replay KV events")
            return False
        self.status.problem = None
        return True

    async def _replay(self, endpoint: str, before: int | None) -> bool:
        """Apply what the engine still has; False: it has begun anew since the last batch.

        The last batch is asked for again, since only its time tells a restarted engine.
        """
        last = self._last
        expected = first = 0 if last is None else last[0]
        seen = 0
        context = zmq.asyncio.Context.shadow(self._context)
        async with aclosing(replayed(context, endpoint, first=first)) as batches:
            async for number, payload in batches:
                seen += 1
                batch = None if number == before else self._decoded(payload)
                if batch is None:
                    break
                if last is not None and number == first:
                    if batch.ts != last[1]:
                        return False
                    expected += 1
                    continue
                if number > expected:
                    self._lost()  # the engine has forgotten some
                elif last is None and number == 0:
                    self._cleared()
                self._apply(number, batch)
                if before is None:
                    self._sequence.accept(number, batch.ts)
                expected = number + 1
                if seen % _AT_ONCE == 0:
                    await anyio.lowlevel.checkpoint()
        if seen == 0 and last is None and before is None:
            self._cleared()  # it has published nothing yet
        elif before is not None and expected < before:
            self._lost()
        return seen > 0 or last is None

    def _decoded(self, payload: bytes) -> EventBatch | None:
        try:
            return decode_batch(payload)
        except KvEventError as error:
            self._trouble(str(error))
            return None

    def _apply(self, number: int, batch: EventBatch) -> None:
        """Take what a batch says; pages that were stored wait for `_store`."""
        now, stored = self.clock(), self._stored
        for event in batch.events:
            if isinstance(event, BlockStored):
                stored.add(event)
            else:
                self._store()
                self._apply_event(event)
        if stored.count >= _STORE_AT_ONCE:
            self._store()
        elif stored.count and self._store_at is None:
            self._store_at = now + _STORE_S
        self._last = (number, batch.ts)
        self._taken += 1
        if not stored.count:
            self.status.batches = self._taken
        self.status.heard_at = now
        if self._news is not None:
            self._news.set()
            self._news = None

    def _store(self) -> None:
        """Tell the index of the pages that wait for it."""
        self._store_at = None
        self.status.batches = self._taken
        if not self._stored.count:
            return
        assert self._index is not None
        now, events = self.clock(), iter(self._stored.taken())
        while True:
            try:
                self._index.all_stored(self.replica, events, at=now)
                return
            except (PageSizeError, ValueError) as error:  # the others are still to come
                self._trouble(str(error))
                self._lost()

    def _apply_event(self, event: KvEvent) -> None:
        assert self._index is not None
        match event:
            case BlockRemoved():
                self._index.removed(self.replica, event, at=self.clock())
            case AllBlocksCleared():
                self._cleared()
            case UnreadEvent(reason):
                self._trouble(reason)
                self._lost()

    def _restarted(self) -> None:
        """The engine began anew: it holds nothing of before."""
        self.status.restarts += 1
        self._last = None
        self._cleared()

    def _cleared(self) -> None:
        assert self._index is not None
        self._store()
        self._index.cleared(self.replica, at=self.clock())

    def _silenced(self, address: KvEventsAddress) -> None:
        """Cut off, and nobody can be asked now.

        An engine that has ended holds nothing, which is known again when it is back. One that goes
        on is asked later, and what it has forgotten by then counts as lost.
        """
        if address.replay is None:
            self._lost()
            return
        assert self._index is not None
        self._store()
        self._index.evidence_lost(self.replica, at=self.clock())

    def _lost(self) -> None:
        """What the engine holds isn't known any more, but for what it will tell from now on."""
        assert self._index is not None
        self._store()
        self.status.unfilled_gaps += 1
        self._index.evidence_lost(self.replica, at=self.clock())

    def _trouble(self, problem: str) -> None:
        if problem != self.status.problem:
            structlog.get_logger(replica=self.replica).warning("kv_events", problem=problem)
        self.status.problem = problem
