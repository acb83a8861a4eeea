"""A request that is let in at once counts as any other, and one that is taken back for nothing."""

import pytest
import sqlalchemy as sa

from app.admission.admission import Admission
from app.admission.turns import Turns
from app.admission.usage import DailyUse
from app.callers import Caller, TenantLimits
from app.errors import RateLimitError

pytestmark = pytest.mark.anyio

LIMITED = Caller(
    tenant="tenant",
    limits=TenantLimits(requests_per_min=3, tokens_per_min=100, concurrent=2, tokens_per_day=120),
)


class Counts:
    """What was counted, in order."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, float] | str] = []

    def queued(self, priority: str, seconds: float) -> None:
        self.seen.append((priority, seconds))

    def limited(self, limit: str) -> None:
        self.seen.append(limit)


class Door:
    """Two requests fit, and no time passes."""

    def __init__(self, database: sa.Engine) -> None:
        self.counts = Counts()
        self.turns = Turns(lambda: 2, queued=10, longest_wait_s=1.0, now=lambda: 0.0)
        self.admission = Admission(DailyUse(database), self.turns, counts=self.counts)

    def standing(self) -> tuple[object, ...]:
        headers = self.admission.headers(LIMITED)
        return headers, self.turns.in_flight, self.admission.used_today("tenant"), self.counts.seen


async def test_it_counts_as_one_that_was_entered(database: sa.Engine) -> None:
    one, other = Door(database), Door(database)
    assert one.admission.takes_at_once(LIMITED, 30)
    ticket = one.admission.entered(LIMITED, 30)
    same = await other.admission.enter(LIMITED, cost_tokens=30)
    assert (ticket.tokens, ticket.waited_s) == (same.tokens, same.waited_s) == (30, 0.0)
    assert one.standing() == other.standing()
    for each in (ticket, same):
        each.used(20, 5)
        each.close()
    assert one.standing() == other.standing()
    assert one.turns.in_flight == 0
    assert one.admission.used_today("tenant") == 25


async def test_one_that_is_taken_back_counts_for_nothing(database: sa.Engine) -> None:
    door = Door(database)
    before = door.standing()
    assert door.admission.takes_at_once(LIMITED, 30)
    door.admission.take_back(LIMITED, 30)
    assert door.standing() == before


async def test_what_is_beyond_a_limit_is_left_to_the_door(database: sa.Engine) -> None:
    door = Door(database)
    assert not door.admission.takes_at_once(LIMITED, 101)  # of tokens by the minute
    for _ in range(2):
        assert door.admission.takes_at_once(LIMITED, 10)
    assert not door.admission.takes_at_once(LIMITED, 10)  # at a time
    assert not door.admission.takes_at_once(Caller(tenant="other"), 10)  # no room
    assert door.counts.seen == []
    with pytest.raises(RateLimitError):
        await door.admission.enter(LIMITED, cost_tokens=10)
    assert door.counts.seen == ["requests_at_a_time"]
    assert door.turns.in_flight == 2
