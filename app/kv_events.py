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
from app.kv_replay import replayed
from cache.errors import KvEventError, PageSizeError
from cache.kv_events import (
    AllBlocksCleared,
    Arrival,
    BlockRemoved,
    BlockStored,
    EventBatch,
    EventSequence,
    KvEvent,
    UnreadEvent,
    decode_batch,
)
from cache.prefix_index import PrefixIndex

_LOOK_S = 0.5
# A subscription takes a moment to reach the engine; what it sent meanwhile is asked for again.
_JOIN_S = 0.3
_CATCH_UP_S = 5.0
_QUEUE_MESSAGES = 100_000
# Waking up costs more than a batch does: under load several come in this time.
_GATHER_S = 0.002
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

    `problem` is why the engine's holdings can't be followed now.
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
    _context: zmq.asyncio.Context = field(default_factory=zmq.asyncio.Context)
    _index: PrefixIndex | None = None
    _sequence: EventSequence = field(default_factory=EventSequence)
    _last: tuple[int, float] | None = None  # number and time of the last batch that was applied
    _news: anyio.Event | None = None  # while somebody waits

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
        with anyio.move_on_after(within_s):
            await self._news.wait()

    def close(self) -> None:
        self._context.destroy(linger=0)

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
            cuts = _Cuts(socket)
            try:
                socket.connect(address.events)
                await self._listen(socket, cuts, source)
            finally:
                cuts.close()

    async def _listen(
        self, socket: zmq.asyncio.Socket, cuts: "_Cuts", source: KvEventSource
    ) -> None:
        address = source.address
        # Reading at once needs no future for each message.
        messages: zmq.Socket[bytes] = zmq.Socket.shadow(socket)
        if not await self._catch_up(address):
            self._lost()
        due = self.clock() + _JOIN_S
        while self.source() == source:
            wait_s = max(0.0, min(_LOOK_S, due - self.clock()))
            has_come = await socket.poll(int(wait_s * 1000))
            if has_come:
                await anyio.sleep(_GATHER_S)
            if cuts.happened() and not await self._catch_up(address):
                self._lost()
            if has_come:
                await self._drain(messages, address)
            if self.clock() >= due:
                await self._catch_up(address)
                due = self.clock() + _CATCH_UP_S

    async def _drain(self, messages: "zmq.Socket[bytes]", address: KvEventsAddress) -> None:
        for _ in range(_AT_ONCE):
            try:
                _, number, payload = messages.recv_multipart(zmq.NOBLOCK)
            except zmq.Again:
                return
            await self._take(int.from_bytes(number, "big"), payload, address)
        await anyio.lowlevel.checkpoint()

    async def _take(self, number: int, payload: bytes, address: KvEventsAddress) -> None:
        """Apply a batch that came by itself, after those that are missing before it."""
        batch = self._decoded(payload)
        if batch is None:
            return  # its number will be missing, and asked for
        arrived = self._sequence.accept(number, batch.ts)
        if arrived.kind is Arrival.DUPLICATE:
            return
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
        async with aclosing(replayed(self._context, endpoint, first=first)) as batches:
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
        for event in batch.events:
            try:
                self._apply_event(event)
            except (PageSizeError, ValueError) as error:
                self._trouble(str(error))
                self._lost()
        self._last = (number, batch.ts)
        self.status.batches += 1
        self.status.heard_at = self.clock()
        if self._news is not None:
            self._news.set()
            self._news = None

    def _apply_event(self, event: KvEvent) -> None:
        """Raises PageSizeError: its pages aren't those of the index."""
        assert self._index is not None
        match event:
            case BlockStored():
                self._index.stored(self.replica, event, at=self.clock())
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
        self._index.cleared(self.replica, at=self.clock())

    def _lost(self) -> None:
        """What the engine holds isn't known any more, but for what it will tell from now on."""
        assert self._index is not None
        self.status.unfilled_gaps += 1
        self._index.evidence_lost(self.replica, at=self.clock())

    def _trouble(self, problem: str) -> None:
        if problem != self.status.problem:
            structlog.get_logger(replica=self.replica).warning("kv_events", problem=problem)
        self.status.problem = problem


class _Cuts:
    """Notices that a socket's connection was cut, also if it has been made again since."""

    def __init__(self, socket: zmq.asyncio.Socket) -> None:
        self._watched = socket
        self._monitor = socket.get_monitor_socket(zmq.EVENT_DISCONNECTED)
        self._events: zmq.Socket[bytes] = zmq.Socket.shadow(self._monitor)

    def happened(self) -> bool:
        """Whether it was cut since this was last asked."""
        found = False
        while True:
            try:
                self._events.recv_multipart(zmq.NOBLOCK)
            except zmq.Again:
                return found
            found = True

    def close(self) -> None:
        self._watched.disable_monitor()
        self._monitor.close()
