"""Whose turn it is, for requests that run: waits, deadlines, and a queue that may be full."""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import anyio

from app.admission.fair_queue import FairQueue, Waiter
from app.callers import Priority
from app.errors import DeadlineError, QueueFullError

if TYPE_CHECKING:
    from app.admission.shared import Others

_LOOK_S = 0.1
# How much of the last pauses between two turns is remembered.
_PACE_MEMORY = 0.9
_LONGEST_RETRY_S = 60.0


@dataclass(slots=True, eq=False)
class _Waiting(Waiter):
    turn: asyncio.Future[None] | None = None
    deadline_s: float = 0.0
    granted: bool = False


class Turns:
    """Lets so many requests be under way, and gives the others their turns.

    Args:
        capacity: how many may be under way in all engines together.
        queued: most that wait.
        longest_wait_s: of those without an earlier deadline.
        now: a clock in seconds that never goes back.
    """

    def __init__(
        self,
        capacity: Callable[[], int],
        *,
        queued: int,
        longest_wait_s: float,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._capacity = capacity
        self._most_queued = queued
        self._longest_wait_s = longest_wait_s
        self.now = now
        self._queue = FairQueue()
        self._others: Others | None = None
        self._last_turn = 0.0
        self._pace_s = 0.0
        self.in_flight = 0

    @property
    def depth(self) -> int:
        """Requests that wait."""
        return self._queue.depth

    @property
    def capacity(self) -> int:
        """How many may be under way here: what other gateways leave, no less than a fair part."""
        whole, others = self._capacity(), self._others
        if others is None or not others.gateways:
            return whole
        return max(whole - others.in_flight, -(-whole // (others.gateways + 1)))

    def enter_at_once(self) -> bool:
        """Whether there is room and nobody waits: then the request is in, and `leave` is due."""
        if self._queue.depth:
            return False
        if self.in_flight >= (self._capacity() if self._others is None else self.capacity):
            return False
        self.in_flight += 1
        if self._queue.clocks:
            self._queue.passed()
        return True

    async def wait(
        self,
        tenant: str,
        cost: int,
        *,
        priority: Priority = Priority.NORMAL,
        weight: float = 1.0,
        deadline_s: float | None = None,
    ) -> float:
        """Returns at the request's turn, with the seconds that it waited; then `leave` is due.

        Raises:
            QueueFullError: too many wait.
            DeadlineError: its turn didn't come in time, or can't.
        """
        if self.enter_at_once():
            return 0.0
        self._make_room(tenant, deadline_s)
        waiting = _Waiting(
            tenant=tenant,
            cost=cost,
            priority=priority,
            weight=weight,
            entered=self.now(),
            deadline_s=min(deadline_s or self._longest_wait_s, self._longest_wait_s),
        )
        await self._wait(waiting)
        return self.now() - waiting.entered

    def leave(self, tenant: str, more: float, *, weight: float = 1.0) -> None:
        """A request has ended, which used so much more than its cost; somebody's turn comes."""
        if self._queue.depth:
            self._queue.charge(tenant, more, weight)
            self._leave()
        else:
            self.in_flight -= 1

    def heard(self, others: "Others") -> None:
        """What other gateways do."""
        self._others = others
        for tenant, tokens in others.given.items():
            self._queue.clocks.leads(tenant, tokens, 1.0)
        self._give_turns()

    async def watch(self) -> None:
        """Give turns when room comes from elsewhere: an engine that got ready."""
        while True:
            await anyio.sleep(_LOOK_S)
            self._give_turns()

    async def _wait(self, waiting: _Waiting) -> None:
        loop = asyncio.get_running_loop()
        waiting.turn = loop.create_future()
        timer = loop.call_later(waiting.deadline_s, self._too_late, waiting)
        self._queue.add(waiting)
        self._give_turns()
        try:
            await waiting.turn
        except BaseException:
            self._queue.remove(waiting)
            if waiting.granted:  # its client left just as its turn came
                self._leave()
            raise
        finally:
            timer.cancel()

    def _make_room(self, tenant: str, deadline_s: float | None) -> None:
        """Where the queue is full, the tenant with most requests in it loses its last one.

        Raises:
            QueueFullError: that is this one.
            DeadlineError: not even those before it in its tenant's line would be done in time.
        """
        ahead_s = self._queue.waiting(tenant) * self._pace_s
        if deadline_s is not None and ahead_s > deadline_s:
            raise DeadlineError(deadline_s, 0.0, retry_after_s=self._retry_s())
        if self._queue.depth < self._most_queued:
            return
        full = QueueFullError(self._queue.depth, self._retry_s())
        if not self._queue.depth:
            raise full
        longest, count = self._queue.longest()
        if self._queue.waiting(tenant) + 1 >= count:
            raise full
        last = self._queue.last_of(longest)
        assert isinstance(last, _Waiting)
        self._refuse(last, full)

    def _too_late(self, waiting: _Waiting) -> None:
        if not waiting.granted:
            waited_s = self.now() - waiting.entered
            retry = self._retry_s()
            self._refuse(waiting, DeadlineError(waiting.deadline_s, waited_s, retry_after_s=retry))

    def _refuse(self, waiting: _Waiting, error: Exception) -> None:
        self._queue.remove(waiting)
        assert waiting.turn is not None
        if not waiting.turn.done():
            waiting.turn.set_exception(error)

    def _leave(self) -> None:
        self.in_flight -= 1
        if self._queue.depth:
            self._give_turns()

    def _give_turns(self) -> None:
        while self._queue.depth and self.in_flight < self.capacity:
            waiting = self._queue.take()
            if waiting is None:
                return
            assert isinstance(waiting, _Waiting)
            assert waiting.turn is not None
            if waiting.turn.done():  # its client is gone, and it hasn't been told yet
                continue
            waiting.granted = True
            self.in_flight += 1
            self._learn_pace(waiting)
            waiting.turn.set_result(None)

    def _learn_pace(self, waiting: Waiter) -> None:
        """How long it is from one turn to the next while somebody waits."""
        now = self.now()
        pause_s = now - max(self._last_turn, waiting.entered)
        self._pace_s = _PACE_MEMORY * self._pace_s + (1 - _PACE_MEMORY) * pause_s
        self._last_turn = now

    def _retry_s(self) -> float:
        return min(max(self._queue.depth * self._pace_s, 1.0), _LONGEST_RETRY_S)
