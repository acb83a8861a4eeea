"""Lets requests in: within their tenant's limits, in a fair order, and no more than fit.

A request that finds room waits for nothing, not even for the event loop's next round. One that
doesn't waits for its turn, until its deadline.
"""

from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

import anyio

from app.admission.limiter import CONCURRENT, REQUESTS, TOKENS, Limiter
from app.admission.ticket import Ticket
from app.admission.turns import Turns
from app.admission.usage import DailyUse
from app.callers import Caller, Priority
from app.errors import AdmissionError, QueueFullError, RateLimitError

if TYPE_CHECKING:
    from app.admission.shared import SharedLimits


_Taken = tuple[str, int, int]
_CONCURRENT_WAIT_S = 1.0
_LABELS = tuple(priority.label for priority in Priority)


class Counts(Protocol):
    """Whoever counts what happens here."""

    def queued(self, priority: str, seconds: float) -> None:
        """A request was let in after so long."""

    def limited(self, limit: str) -> None:
        """A limit turned a request away."""


class Admission:
    """The door; `shared` are limits that other gateways keep with this one."""

    def __init__(
        self,
        use: DailyUse,
        turns: Turns,
        *,
        counts: Counts,
        shared: "SharedLimits | None" = None,
    ) -> None:
        self._limiter = Limiter(use, now=turns.now)
        self._counts = counts
        self._given: dict[str, int] = {}
        self._shared_buckets: dict[tuple[str, str], int] = {}
        self._held: set[str] = set()
        self.use = use
        self.turns = turns
        self.shared = shared

    @asynccontextmanager
    async def admit(
        self,
        caller: Caller,
        *,
        cost_tokens: int,
        priority: Priority | None = None,
        deadline_s: float | None = None,
        takes_turn: bool = True,
    ) -> AsyncIterator[Ticket]:
        """`enter`, and a ticket that is closed in the end, if nobody did before."""
        ticket = await self.enter(
            caller,
            cost_tokens=cost_tokens,
            priority=priority,
            deadline_s=deadline_s,
            takes_turn=takes_turn,
        )
        try:
            yield ticket
        finally:
            ticket.close()

    async def enter(
        self,
        caller: Caller,
        *,
        cost_tokens: int,
        priority: Priority | None = None,
        deadline_s: float | None = None,
        takes_turn: bool = True,
    ) -> Ticket:
        """Let a request in, at its turn.

        Args:
            cost_tokens: an estimate of prompt and answer together.
            priority: None is normal; never above the key's ceiling.
            deadline_s: seconds from now until it must have begun.
            takes_turn: False for what no engine works on; only limits hold for it.

        Raises:
            RateLimitError: its tenant's limits don't let it.
            QueueFullError: too many wait.
            DeadlineError: its turn didn't come in time, or can't.
        """
        asked = max(Priority.NORMAL if priority is None else priority, caller.ceiling)
        waited_s = 0.0
        try:
            self._limiter.enter(caller.tenant, caller.limits, cost_tokens)
            if self.shared is not None:
                await self._enter_shared(self.shared, caller, cost_tokens)
            if takes_turn and not self.turns.enter_at_once():
                waited_s = await self._turn(caller, cost_tokens, asked, deadline_s)
        except AdmissionError as error:
            self._counts.limited(_name(error))
            raise
        if takes_turn:
            self._counts.queued(asked.label, waited_s)
            if self.shared is not None:
                self._given[caller.tenant] = self._given.get(caller.tenant, 0) + cost_tokens
        ended = partial(self._ended, caller, cost_tokens, took_turn=takes_turn)
        return Ticket(cost_tokens, waited_s, ended=ended)

    def takes_at_once(self, caller: Caller, cost_tokens: int) -> bool:
        """Whether a request of normal priority is in, without waiting: then `entered` is due, or
        `take_back`. False: only `enter` can tell whether it may be, or why not."""
        if self.shared is not None:
            return False
        try:
            self._limiter.enter(caller.tenant, caller.limits, cost_tokens)
        except RateLimitError:
            return False
        if self.turns.enter_at_once():
            return True
        self._limiter.undo(caller.tenant, caller.limits, cost_tokens)
        return False

    def entered(self, caller: Caller, cost_tokens: int) -> Ticket:
        """What a request holds that is in."""
        self._counts.queued(_LABELS[max(Priority.NORMAL, caller.ceiling)], 0.0)
        ended = partial(self._ended, caller, cost_tokens, took_turn=True)
        return Ticket(cost_tokens, 0.0, ended=ended)

    def take_back(self, caller: Caller, cost_tokens: int) -> None:
        """A request that is in hasn't been after all."""
        self._limiter.undo(caller.tenant, caller.limits, cost_tokens)
        self.turns.leave(caller.tenant, -cost_tokens, weight=caller.limits.weight)

    def headers(self, caller: Caller) -> dict[str, str]:
        """How a tenant stands with its limits by the minute; nothing where it has none."""
        return self._limiter.headers(caller.tenant, caller.limits)

    def used_today(self, tenant: str) -> int:
        """Tokens of all gateways on the database, others' as of a second ago."""
        return self.use.of(tenant)

    def levels(self) -> dict[str, float | None]:
        """For the metrics."""
        return {
            "queue_depth": self.turns.depth,
            "admitted_requests": self.turns.in_flight,
            "admission_capacity": self.turns.capacity,
            "redis_up": None if self.shared is None else float(self.shared.up),
        }

    def reasons(self) -> Iterator[str]:
        """What is degraded, in sentences."""
        if self.shared is not None and not self.shared.up:
            yield (
                "Redis at FOREWORD_GATEWAY__REDIS_URL doesn't answer: each gateway keeps limits "
                f"and fairness for itself ({self.shared.failures} failures)"
            )
        if self.use.problem is not None:
            yield self.use.problem

    def watches(self) -> Iterator[Callable[[], Coroutine[Any, Any, None]]]:
        """What runs beside the requests, for ever."""
        yield self.turns.watch
        yield self.use.watch
        if self.shared is not None:
            yield self.exchange

    async def _turn(
        self, caller: Caller, tokens: int, priority: Priority, deadline_s: float | None
    ) -> float:
        """Returns the seconds that it waited; without its turn it counts for no limit."""
        try:
            return await self.turns.wait(
                caller.tenant,
                tokens,
                priority=priority,
                weight=caller.limits.weight,
                deadline_s=deadline_s,
            )
        except BaseException:
            self._limiter.undo(caller.tenant, caller.limits, tokens)
            if self.shared is not None:
                for what, amount, limit in _buckets(caller, tokens):
                    self.shared.correct(caller.tenant, what, -amount, limit=limit)
            raise

    def _ended(self, caller: Caller, tokens: int, used: int, *, took_turn: bool) -> None:
        """A request that was let in has ended; the next one's turn comes."""
        limits = caller.limits
        self._limiter.leave(caller.tenant, limits, tokens, used)
        if self.shared is not None and limits.tokens_per_min is not None:
            self.shared.correct(caller.tenant, TOKENS, used - tokens, limit=limits.tokens_per_min)
        if took_turn:
            self.turns.leave(caller.tenant, used - tokens, weight=limits.weight)

    async def exchange(self) -> None:
        """Tell other gateways what goes on here, and hear of them, for ever."""
        shared = self.shared
        assert shared is not None
        while True:
            given, self._given = self._given, {}
            await shared.exchange(self.turns.in_flight, given)
            self.turns.heard(shared.others)
            await shared.give_back(self._shared_buckets)
            await self._tell_counts(shared)
            await anyio.sleep(shared.pause_s)

    async def _tell_counts(self, shared: "SharedLimits") -> None:
        """How many requests are under way here, of tenants whose number is limited."""
        for tenant in list(self._held):
            count = self._limiter.concurrent(tenant)
            await shared.hold(tenant, count, limit=0)
            if not count:
                self._held.discard(tenant)

    async def _enter_shared(self, shared: "SharedLimits", caller: Caller, tokens: int) -> None:
        """Raises RateLimitError: a limit of all gateways together; the request counts for none."""
        try:
            await self._take_shared(shared, caller, tokens)
        except BaseException:
            self._limiter.undo(caller.tenant, caller.limits, tokens)
            raise

    async def _take_shared(self, shared: "SharedLimits", caller: Caller, tokens: int) -> None:
        tenant, limits = caller.tenant, caller.limits
        if limits.concurrent is not None:
            self._held.add(tenant)
            count = self._limiter.concurrent(tenant)
            if not await shared.hold(tenant, count, limit=limits.concurrent):
                raise self._refused(CONCURRENT, caller, _CONCURRENT_WAIT_S)
        taken: list[_Taken] = []
        for what, amount, limit in _buckets(caller, tokens):
            wait_s = await shared.take(tenant, what, amount, limit=limit)
            if wait_s is not None:
                for earlier, back, of in taken:
                    shared.correct(tenant, earlier, -back, limit=of)
                raise self._refused(what, caller, wait_s)
            taken.append((what, amount, limit))
            self._shared_buckets[tenant, what] = limit

    def _refused(self, what: str, caller: Caller, wait_s: float) -> RateLimitError:
        return self._limiter.refused(what, caller.tenant, caller.limits, wait_s)


def _buckets(caller: Caller, tokens: int) -> Iterator[_Taken]:
    """What a request takes out of which buckets, and what those hold."""
    limits = caller.limits
    if limits.requests_per_min is not None:
        yield REQUESTS, 1, limits.requests_per_min
    if tokens and limits.tokens_per_min is not None:
        yield TOKENS, tokens, limits.tokens_per_min


def _name(error: AdmissionError) -> str:
    """What turned a request away, as it is counted."""
    match error:
        case RateLimitError():
            return error.what.replace(" ", "_")
        case QueueFullError():
            return "queue"
        case _:
            return "deadline"
