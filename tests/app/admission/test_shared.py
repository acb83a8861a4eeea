"""Limits of several gateways, through a real Redis that is there, is lost and comes back."""

import asyncio
import signal
import time
from collections.abc import AsyncIterator

import anyio
import anyio.lowlevel
import pytest
import sqlalchemy as sa

from app.admission import shared
from app.admission.admission import Admission
from app.admission.limiter import REQUESTS, TOKENS
from app.admission.shared import SharedLimits
from app.admission.turns import Turns
from app.admission.usage import DailyUse
from app.callers import Caller, TenantLimits
from app.errors import RateLimitError
from app.metrics import Metrics
from tests.app.admission.conftest import RedisServer

pytestmark = pytest.mark.anyio


@pytest.fixture
async def two(redis_server: RedisServer) -> AsyncIterator[tuple[SharedLimits, SharedLimits]]:
    one, other = SharedLimits(redis_server.url), SharedLimits(redis_server.url)
    yield one, other
    await one.close()
    await other.close()


async def test_two_gateways_together_give_no_more_than_the_limit(
    two: tuple[SharedLimits, SharedLimits],
) -> None:
    given, began = 0, time.monotonic()
    for number in range(200):
        if await two[number % 2].take("a", REQUESTS, 1, limit=60) is None:
            given += 1
    took_s = time.monotonic() - began
    assert 58 <= given <= 62 + took_s, "one comes back each second"
    while (wait_s := await two[0].take("a", REQUESTS, 1, limit=60)) is None:
        pass
    assert 0 < wait_s <= 1.1
    assert await two[0].take("b", REQUESTS, 1, limit=60) is None


async def test_half_a_seconds_worth_is_spent_without_asking(
    two: tuple[SharedLimits, SharedLimits], redis_server: RedisServer
) -> None:
    assert await two[0].take("a", TOKENS, 10, limit=60_000) is None
    redis_server.stop()
    for _ in range(50):
        assert await two[0].take("a", TOKENS, 10, limit=60_000) is None
    assert two[0].failures == 0


async def test_what_was_used_too_much_is_paid_by_the_next(
    two: tuple[SharedLimits, SharedLimits],
) -> None:
    assert await two[0].take("a", TOKENS, 100, limit=1000) is None
    two[0].correct("a", TOKENS, 800, limit=1000)
    assert await two[0].take("a", TOKENS, 90, limit=1000) is None
    assert await two[1].take("a", TOKENS, 100, limit=1000) is not None


async def test_what_was_not_needed_comes_back_to_all(
    two: tuple[SharedLimits, SharedLimits],
) -> None:
    assert await two[0].take("a", TOKENS, 1000, limit=1000) is None
    assert await two[1].take("a", TOKENS, 500, limit=1000) is not None
    two[0].correct("a", TOKENS, -900, limit=1000)
    await two[0].give_back({("a", TOKENS): 1000})
    assert await two[1].take("a", TOKENS, 500, limit=1000) is None


async def test_a_tenant_may_come_while_buckets_are_given_back(
    two: tuple[SharedLimits, SharedLimits],
) -> None:
    assert await two[0].take("a", TOKENS, 1000, limit=1000) is None
    two[0].correct("a", TOKENS, -900, limit=1000)
    limits = {("a", TOKENS): 1000}
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(two[0].give_back, limits)
        await anyio.lowlevel.checkpoint()
        limits["b", TOKENS] = 1000


async def test_requests_under_way_are_counted_over_gateways(
    two: tuple[SharedLimits, SharedLimits],
) -> None:
    assert await two[0].hold("a", 1, limit=2)
    assert await two[1].hold("a", 1, limit=2)
    assert not await two[0].hold("a", 2, limit=2)
    await two[1].hold("a", 0, limit=0)
    assert await two[0].hold("a", 2, limit=2)


async def test_gateways_hear_of_each_other(two: tuple[SharedLimits, SharedLimits]) -> None:
    await two[0].exchange(3, {"a": 500})
    await two[1].exchange(4, {"a": 100, "b": 7})
    assert (two[1].others.gateways, two[1].others.in_flight) == (1, 3)
    assert two[1].others.given == {"a": 500}
    await two[0].exchange(3, {})
    assert two[0].others.given == {"a": 100, "b": 7}


async def test_losing_redis_fails_nothing_and_it_is_found_again(
    two: tuple[SharedLimits, SharedLimits], redis_server: RedisServer
) -> None:
    assert await two[0].take("a", REQUESTS, 1, limit=60) is None
    redis_server.stop()
    for _ in range(3):
        assert await two[0].take("a", REQUESTS, 1, limit=60) is None
        assert await two[0].hold("a", 1, limit=1)
    assert not two[0].up
    assert two[0].failures == 1  # asked once, and then no more until it is back
    redis_server.start()
    await two[0].exchange(0, {})
    assert two[0].up


async def test_a_redis_that_is_silent_holds_nobody_up(
    redis_server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shared, "_TIMEOUT_S", 0.25)
    one = SharedLimits(redis_server.url)
    assert redis_server.process is not None
    try:
        await one.exchange(0, {})
        async with asyncio.timeout(60):
            while not one.up:  # a busy machine may have been silent itself
                await one.exchange(0, {})
        redis_server.process.send_signal(signal.SIGSTOP)
        async with asyncio.timeout(20):
            assert await one.take("a", REQUESTS, 1, limit=60) is None
        assert not one.up
    finally:
        redis_server.process.send_signal(signal.SIGCONT)
        await one.close()


async def test_limits_hold_for_two_gateways_together_and_for_each_without_redis(
    two: tuple[SharedLimits, SharedLimits], redis_server: RedisServer, database: sa.Engine
) -> None:
    doors = [_door(database, each) for each in two]
    caller = Caller(tenant="a", limits=TenantLimits(requests_per_min=10, concurrent=4))
    began = time.monotonic()
    let_in = await _let_in(doors, caller, 40)
    assert 10 <= let_in <= 10 + (time.monotonic() - began) / 6, "one comes back each six seconds"
    redis_server.stop()
    other = Caller(tenant="b", limits=TenantLimits(requests_per_min=10))
    began = time.monotonic()
    let_in = await _let_in(doors, other, 60)
    assert 20 <= let_in <= 20 + 2 * (time.monotonic() - began) / 6
    assert any("Redis" in reason for reason in doors[0].reasons())


async def test_more_at_a_time_than_the_limit_is_refused_wherever_it_comes(
    two: tuple[SharedLimits, SharedLimits], database: sa.Engine
) -> None:
    doors = [_door(database, each) for each in two]
    caller = Caller(tenant="a", limits=TenantLimits(concurrent=3))
    tickets = [await doors[n % 2].enter(caller, cost_tokens=1) for n in range(3)]
    for door in doors:
        with pytest.raises(RateLimitError, match="3 requests at a time"):
            await door.enter(caller, cost_tokens=1)
    tickets[0].close()
    (await doors[0].enter(caller, cost_tokens=1)).close()


def _door(database: sa.Engine, limits: SharedLimits) -> Admission:
    turns = Turns(lambda: 1000, queued=10, longest_wait_s=5)
    return Admission(DailyUse(database), turns, counts=Metrics(), shared=limits)


async def _let_in(doors: list[Admission], caller: Caller, asked: int) -> int:
    let_in = 0
    for number in range(asked):
        try:
            ticket = await doors[number % 2].enter(caller, cost_tokens=1)
        except RateLimitError:
            continue
        ticket.close()
        let_in += 1
    return let_in
