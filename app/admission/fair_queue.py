"""Whose turn it is: weighted fair over tenants, within classes of priority. Pure.

Stride scheduling: each tenant has a clock that its own requests move on by their cost over its
weight, and the tenant whose clock is furthest behind goes next. One that was away comes back at the
time of the others, so that nobody saves up; and once there is room for all, all are equal. A more
urgent class goes before a less urgent one, but each so many turns the least urgent that waits has
one, so that nobody waits for ever.
"""

import heapq
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count

from app.callers import Priority

_SPARE_TURN = 16


@dataclass(slots=True, eq=False)
class Waiter:
    """A request that waits. `cost` is in tokens; `entered` is in seconds of the caller's clock."""

    tenant: str
    cost: float
    priority: Priority = Priority.INTERACTIVE
    weight: float = 1.0
    entered: float = 0.0
    gone: bool = field(default=False)


@dataclass(slots=True)
class _Line:
    """The requests of one tenant in one class, in the order in which they came."""

    tenant: str
    waiting: deque[Waiter] = field(default_factory=deque)
    clock: float = 0.0


class _Class:
    """The lines of one priority."""

    def __init__(self) -> None:
        self.lines: dict[str, _Line] = {}
        self._heap: list[tuple[float, int, _Line]] = []
        self._order = count()

    def add(self, waiter: Waiter, clock: float) -> None:
        line = self.lines.get(waiter.tenant)
        if line is None:
            line = self.lines[waiter.tenant] = _Line(waiter.tenant, clock=clock)
            heapq.heappush(self._heap, (clock, next(self._order), line))
        line.waiting.append(waiter)

    def take(self, clocks: "Clocks") -> Waiter | None:
        """The next one's turn; its line moves on."""
        while self._heap:
            clock, order, line = self._heap[0]
            while line.waiting and line.waiting[0].gone:
                line.waiting.popleft()
            if not line.waiting:
                heapq.heappop(self._heap)
                del self.lines[line.tenant]
                continue
            now = clocks.of(line.tenant)
            if now > clock:  # it was served in another class, or took more than was thought
                heapq.heapreplace(self._heap, (now, order, line))
                continue
            return line.waiting.popleft()
        return None


class Clocks:
    """Each tenant's clock: tokens over weight that it was given so far."""

    def __init__(self) -> None:
        self.time = 0.0
        self._of: dict[str, float] = {}

    def of(self, tenant: str) -> float:
        """Where it stands; one that isn't known stands where the last turn was given."""
        return self._of.get(tenant, self.time)

    def enters(self, tenant: str) -> float:
        """A tenant begins to wait: it brings no time with it that it didn't use."""
        self._of[tenant] = clock = max(self.of(tenant), self.time)
        return clock

    def turn(self, tenant: str, cost: float, weight: float) -> None:
        """It is given a turn."""
        self.time = max(self.time, self.of(tenant))
        self.charge(tenant, cost, weight)

    def leads(self, tenant: str, cost: float, weight: float) -> None:
        """It was given so much elsewhere just now: it stands at least so far before the others.

        What it was given there earlier is forgotten, else it would have to wait here for hours.
        """
        self._of[tenant] = max(self.of(tenant), self.time + cost / weight)

    def charge(self, tenant: str, cost: float, weight: float) -> None:
        """It used so much more; negative: so much less than it was charged for."""
        self._of[tenant] = self.of(tenant) + cost / weight

    def forget(self) -> None:
        """All are equal again."""
        self._of.clear()

    def __len__(self) -> int:
        return len(self._of)


class FairQueue:
    """Requests that wait for their turn."""

    def __init__(self) -> None:
        self.clocks = Clocks()
        self._classes = {priority: _Class() for priority in Priority}
        self._waiting: dict[str, int] = {}
        self._turns = 0
        self.depth = 0

    def add(self, waiter: Waiter) -> None:
        """To the end of its tenant's line."""
        if waiter.tenant not in self._waiting:
            self.clocks.enters(waiter.tenant)
        clock = self.clocks.of(waiter.tenant)
        self._classes[waiter.priority].add(waiter, clock)
        self._waiting[waiter.tenant] = self._waiting.get(waiter.tenant, 0) + 1
        self.depth += 1

    def take(self) -> Waiter | None:
        """The next one; None where nobody waits."""
        if not self.depth:
            return None
        self._turns += 1
        order = list(self._classes.values())
        if self._turns % _SPARE_TURN == 0:
            order.reverse()
        for each in order:
            waiter = each.take(self.clocks)
            if waiter is not None:
                self._left(waiter)
                self.clocks.turn(waiter.tenant, waiter.cost, waiter.weight)
                return waiter
        return None

    def passed(self) -> None:
        """Somebody found room without waiting: what was used until then is nobody's loss."""
        self.clocks.forget()

    def charge(self, tenant: str, cost: float, weight: float) -> None:
        """A tenant used so much more than its turn was charged for, while others wait."""
        if self.depth:
            self.clocks.charge(tenant, cost, weight)

    def remove(self, waiter: Waiter) -> None:
        """It waits no longer; to say so twice does no harm."""
        if not waiter.gone:
            waiter.gone = True
            self._left(waiter)

    def waiting(self, tenant: str) -> int:
        """How many of a tenant's requests wait."""
        return self._waiting.get(tenant, 0)

    def longest(self) -> tuple[str, int]:
        """The tenant that most requests wait of; one must wait."""
        return max(self._waiting.items(), key=lambda item: item[1])

    def last_of(self, tenant: str) -> Waiter:
        """Of a tenant that waits, the one whose turn would come last."""
        return next(self._from_the_end(tenant))

    def _from_the_end(self, tenant: str) -> Iterator[Waiter]:
        for each in reversed(self._classes.values()):
            line = each.lines.get(tenant)
            if line is not None:
                yield from (waiter for waiter in reversed(line.waiting) if not waiter.gone)

    def _left(self, waiter: Waiter) -> None:
        waiter.gone = True
        self.depth -= 1
        left = self._waiting[waiter.tenant] - 1
        if left:
            self._waiting[waiter.tenant] = left
        else:
            del self._waiting[waiter.tenant]
