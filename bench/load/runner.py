"""Sends the chains of a workload when they are due, or as fast as a closed loop goes.

A request's time counts from when it is sent, a new connection included. The generator's lag is how
much later than scheduled a request was begun; waiting for a free slot (`--max-concurrency`) or for
the answer before it is no lag. A closed loop has no schedule: there the lag is by how much the
event loop woke late, twenty times a second.

What is due goes first: answers that have ended are read one at a time, with a look at the clock
between any two, since many may end at once.
"""

import asyncio
import gc
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import NamedTuple

from bench.load.bodies import Bodies
from bench.load.pool import Exchange, Pool
from bench.load.record import Sent, line_of, read_answer
from bench.load.send_times import Chain, in_order_of_time, own_time_s
from bench.run_folder import Load, Phase, RequestLine
from bench.workloads.file import WorkloadRequest

CHAT_PATH = "/v1/chat/completions"

_BEAT_S = 0.05
# uvloop's timers are whole milliseconds: the rest of the way is waited for in turns of the loop.
_TIMER_S = 0.0005
_INTERRUPTED = "interrupted"


@dataclass(slots=True, kw_only=True)
class Pass:
    """One sending of the whole list.

    Attributes:
        lags_s: of each request that was scheduled; in a closed loop, of the event loop.
        answers: by request, for the later turns of its session.
        ready: requests made ahead.
    """

    phase: Phase
    began: float = 0.0
    ended: list[RequestLine] = field(default_factory=list)
    lags_s: list[float] = field(default_factory=list)
    answers: dict[str, str] = field(default_factory=dict)
    ready: dict[str, bytes] = field(default_factory=dict)


class _Ended(NamedTuple):
    """An exchange that is over, and not read yet."""

    request: WorkloadRequest
    exchange: Exchange
    times: Sent


class Runner:
    """One pass after the other over one pool.

    Args:
        began: the run's start, by `time.perf_counter`.
        on_line: told of each request that has ended.
    """

    def __init__(
        self,
        pool: Pool,
        bodies: Bodies,
        load: Load,
        *,
        began: float,
        on_line: Callable[[RequestLine], None],
    ) -> None:
        self._pool = pool
        self._bodies = bodies
        self._load = load
        self._began = began
        self._on_line = on_line
        self._unread: asyncio.Queue[_Ended] = asyncio.Queue()
        self._slots = asyncio.Semaphore(load.concurrency) if load.concurrency else None

    async def run(
        self, chains: Sequence[Chain], times_s: Sequence[float] | None, state: Pass
    ) -> None:
        """Send all, writing into `state`; when cancelled, what is under way is `interrupted`."""
        requests = [request for chain in chains for request in chain]
        state.ready = {r.id: self._request(r, state) for r in requests if not r.needs_answers}
        with _no_garbage_collection():
            state.began = time.perf_counter()
            try:
                async with asyncio.TaskGroup() as group:
                    reading = group.create_task(self._read_ended(state))
                    if times_s is None:
                        await self._closed(chains, state)
                    else:
                        await self._open(in_order_of_time(chains, times_s), state)
                    reading.cancel()
            finally:
                while not self._unread.empty():
                    self._read(self._unread.get_nowait(), state)

    async def _closed(self, chains: Sequence[Chain], state: Pass) -> None:
        waiting = deque(chains)

        async def work() -> None:
            while waiting:
                await self._chain(waiting.popleft(), state, None)

        async with asyncio.TaskGroup() as group:
            beat = group.create_task(_beat(state.lags_s))
            async with asyncio.TaskGroup() as workers:
                for _ in range(min(self._load.concurrency or 1, len(chains))):
                    workers.create_task(work())
            beat.cancel()

    async def _open(self, timed: Sequence[tuple[float, Chain]], state: Pass) -> None:
        async with asyncio.TaskGroup() as group:
            for at_s, chain in timed:
                due = state.began + at_s
                await _until(due)
                group.create_task(self._chain(chain, state, due))

    async def _chain(self, chain: Chain, state: Pass, due: float | None) -> None:
        """A later turn is due when the one before was answered, or at its own later time."""
        for turn, request in enumerate(chain):
            if turn and due is not None:
                due = max(
                    time.perf_counter(),
                    state.began + (own_time_s(request, self._load) or 0.0),
                )
                await _until(due)
            await self._one(request, state, due)

    async def _one(self, request: WorkloadRequest, state: Pass, due: float | None) -> None:
        if due is not None:
            state.lags_s.append(time.perf_counter() - due)
        if self._slots is None:
            await self._exchange(request, state, due)
        else:
            async with self._slots:
                await self._exchange(request, state, due)

    async def _exchange(self, request: WorkloadRequest, state: Pass, due: float | None) -> None:
        ready = state.ready.pop(request.id, None) or self._request(request, state)
        sent = time.perf_counter()
        try:
            exchange = await self._pool.exchange(ready)
        except asyncio.CancelledError:
            self._end(request, state, Exchange(problem=_INTERRUPTED), sent, due)
            raise
        self._end(request, state, exchange, sent, due)

    def _end(
        self,
        request: WorkloadRequest,
        state: Pass,
        exchange: Exchange,
        sent: float,
        due: float | None,
    ) -> None:
        times = Sent(scheduled=sent if due is None else due, sent=sent)
        ended = _Ended(request, exchange, times)
        if request.session is None:
            self._unread.put_nowait(ended)
        else:
            # The next turn may hold it.
            self._read(ended, state)

    async def _read_ended(self, state: Pass) -> None:
        while True:
            self._read(await self._unread.get(), state)
            await asyncio.sleep(0)

    def _read(self, ended: _Ended, state: Pass) -> None:
        request, exchange, times = ended
        answer = read_answer(exchange)
        if request.session is not None:
            state.answers[request.id] = answer.text
        line = line_of(request, exchange, answer, times, began=self._began, phase=state.phase)
        state.ended.append(line)
        self._on_line(line)

    def _request(self, request: WorkloadRequest, state: Pass) -> bytes:
        body = self._bodies.body(request, state.answers)
        return self._pool.request("POST", CHAT_PATH, body)


async def _until(due: float) -> None:
    """Sleep, and then let the loop turn until the very moment."""
    # There is no event to wait for: time itself is.
    while (rest := due - time.perf_counter()) > 0:  # noqa: ASYNC110
        await asyncio.sleep(max(0.0, rest - _TIMER_S))


async def _beat(lags_s: list[float]) -> None:
    while True:
        due = time.perf_counter() + _BEAT_S
        await asyncio.sleep(_BEAT_S)
        # A timer of whole milliseconds may ring early.
        lags_s.append(max(0.0, time.perf_counter() - due))


@contextmanager
def _no_garbage_collection() -> Iterator[None]:
    """A collection stops everything for tens of milliseconds; what is sent makes few cycles."""
    gc.collect()
    gc.freeze()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
        gc.unfreeze()
