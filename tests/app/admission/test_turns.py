"""Requests wait for their turn, until their deadline, and none is lost or counted twice."""

import asyncio
import random
import time

import pytest

from app.admission.shared import Others
from app.admission.turns import Turns
from app.callers import Priority
from app.errors import DeadlineError, QueueFullError

pytestmark = pytest.mark.anyio


def turns(capacity: int, *, queued: int = 100, longest_wait_s: float = 60.0) -> Turns:
    return Turns(lambda: capacity, queued=queued, longest_wait_s=longest_wait_s)


async def test_where_there_is_room_nobody_waits() -> None:
    one = turns(2)
    assert await one.wait("a", 10) == 0.0
    assert await one.wait("a", 10) == 0.0
    assert (one.in_flight, one.depth) == (2, 0)


async def test_room_costs_microseconds() -> None:
    """A guard against a slip of two orders: it is about one."""
    one = turns(1)
    best = min([await _round_s(one) for _ in range(5)])
    assert best < 100e-6


async def _round_s(one: Turns) -> float:
    rounds, begun = 2000, time.thread_time()
    for _ in range(rounds):
        await one.wait("a", 10)
        one.leave("a", 0)
    return (time.thread_time() - begun) / rounds


async def test_the_next_ones_turn_comes_when_one_leaves() -> None:
    one = turns(1)
    await one.wait("a", 10)
    waiting = asyncio.ensure_future(one.wait("b", 10))
    await asyncio.sleep(0.01)
    assert not waiting.done()
    one.leave("a", 0)
    assert await waiting > 0
    assert (one.in_flight, one.depth) == (1, 0)


async def test_a_deadline_that_passes_in_the_queue_is_told_at_once() -> None:
    one = turns(1)
    await one.wait("a", 10)
    begun = time.monotonic()
    with pytest.raises(DeadlineError) as caught:
        await one.wait("b", 10, deadline_s=0.05)
    assert time.monotonic() - begun < 60
    assert caught.value.waited_s >= 0.04
    assert caught.value.retry_after_s is not None
    assert (one.in_flight, one.depth) == (1, 0)


async def test_a_client_that_leaves_takes_its_place_with_it() -> None:
    one = turns(1)
    await one.wait("a", 10)
    left = asyncio.ensure_future(one.wait("b", 10))
    stays = asyncio.ensure_future(one.wait("b", 10))
    await asyncio.sleep(0)
    left.cancel()
    await asyncio.gather(left, return_exceptions=True)
    one.leave("a", 0)
    await stays
    assert (one.in_flight, one.depth) == (1, 0)


async def test_a_client_that_leaves_as_its_turn_comes_gives_it_on() -> None:
    one = turns(1)
    await one.wait("a", 10)
    left = asyncio.ensure_future(one.wait("b", 10))
    stays = asyncio.ensure_future(one.wait("c", 10))
    await asyncio.sleep(0)
    one.leave("a", 0)  # its turn: it was told, and has not run since
    left.cancel()
    await asyncio.gather(left, return_exceptions=True)
    await asyncio.wait_for(stays, 30)
    assert (one.in_flight, one.depth) == (1, 0)


async def test_a_full_queue_takes_from_who_has_most_in_it() -> None:
    one = turns(1, queued=4)
    await one.wait("a", 10)
    greedy = [asyncio.ensure_future(one.wait("greedy", 10)) for _ in range(4)]
    await asyncio.sleep(0)
    with pytest.raises(QueueFullError) as caught:
        await one.wait("greedy", 10)
    assert caught.value.headers["retry-after"]
    modest = asyncio.ensure_future(one.wait("modest", 10))
    await asyncio.sleep(0.01)
    assert greedy[-1].done()
    assert isinstance(greedy[-1].exception(), QueueFullError)
    assert not modest.done()
    for task in [*greedy, modest]:
        task.cancel()
    await asyncio.gather(*greedy, modest, return_exceptions=True)
    assert (one.in_flight, one.depth) == (1, 0)


async def test_room_that_comes_from_elsewhere_is_seen() -> None:
    room = [0]
    one = Turns(lambda: room[0], queued=10, longest_wait_s=60)
    watch = asyncio.ensure_future(one.watch())
    waiting = asyncio.ensure_future(one.wait("a", 10))
    await asyncio.sleep(0.01)
    assert not waiting.done()
    room[0] = 1
    await asyncio.wait_for(waiting, 60)
    watch.cancel()
    await asyncio.gather(watch, return_exceptions=True)


async def test_other_gateways_take_room_but_never_a_fair_part() -> None:
    one = turns(10)
    one.heard(Others(gateways=1, in_flight=3))
    assert one.capacity == 7
    one.heard(Others(gateways=1, in_flight=10))
    assert one.capacity == 5
    one.heard(Others())
    assert one.capacity == 10


async def test_a_storm_of_requests_neither_loses_nor_doubles_a_place() -> None:
    """Hundreds of requests come, wait, end, give up and are too late, in an order that is given."""
    random_ = random.Random(6)
    one, most, now = turns(4, queued=60), 0, 0

    async def request(number: int) -> str:
        nonlocal most, now
        await asyncio.sleep(random_.random() * 0.2)
        try:
            await one.wait(
                random_.choice("abc"),
                random_.randrange(1, 100),
                priority=random_.choice(list(Priority)),
                deadline_s=random_.choice([None, 0.02, 0.2]),
            )
        except (DeadlineError, QueueFullError):
            return "refused"
        now += 1
        most = max(most, now)
        try:
            await asyncio.sleep(random_.random() * 0.01)
        finally:
            now -= 1
            one.leave("a", random_.randrange(-50, 50))
        return "answered"

    tasks = [asyncio.ensure_future(request(number)) for number in range(400)]
    for task in tasks[::7]:
        asyncio.get_running_loop().call_later(random_.random() * 0.3, task.cancel)
    done = await asyncio.gather(*tasks, return_exceptions=True)
    assert (one.in_flight, one.depth) == (0, 0)
    assert most <= 4
    assert all(isinstance(d, str | asyncio.CancelledError) for d in done)
    assert done.count("answered") > 20
