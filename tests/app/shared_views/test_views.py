"""Gateways join, leave, lose their Redis and have it back."""

import signal
import time

import anyio
import pytest
import redis

from app.shared_views import views
from tests.app.admission.conftest import RedisServer
from tests.app.shared_views.conftest import Gateway

pytestmark = pytest.mark.anyio


async def _all(gateways: list[Gateway]) -> None:
    for _ in range(2):
        for each in gateways:
            await each.views.exchange()


async def test_what_one_sent_all_know(gateways: list[Gateway]) -> None:
    await _all(gateways)
    assert [len(each.views.others) for each in gateways] == [2, 2, 2]
    keys = gateways[0].answer(7, at=time.monotonic())
    await _all(gateways)
    assert [each.held(keys) for each in gateways] == [7, 7, 7]
    assert gateways[1].views.told() | {"history_s": 0.0} == {
        "others": 2, "up": True, "failures": 0, "caught_up": True, "history_s": 0.0,
        "applied": 2, "missed": 0, "unplaced": 0, "untold": 0,
    }  # fmt: skip


async def test_who_joins_late_learns_what_was_sent_before(gateways: list[Gateway]) -> None:
    await _all(gateways[:1])
    known = [gateways[0].answer(n, at=time.monotonic()) for n in range(1, 60)]
    await _all(gateways[:1])
    for keys in (gateways[0].answer(n, at=time.monotonic()) for n in range(60, 130)):
        known.append(keys)
        await gateways[0].views.exchange()  # more entries than are read at once
    late = gateways[2]
    assert not late.views.caught_up
    await late.views.exchange()
    assert late.views.caught_up
    assert late.views.history_s is not None
    assert [late.held(keys) for keys in known] == [len(keys) for keys in known]


async def test_what_was_under_way_is_told_and_ends_with_its_gateway(
    gateways: list[Gateway], monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = gateways[:2]
    meters = [each.fleet.get("engine-0").meter for each in (one, other)]
    meters[0].begun("r", tokens=4096, at=time.monotonic())
    await _all([one, other])
    assert (meters[1].in_flight, meters[1].in_flight_everywhere) == (0, 1)
    assert meters[1].load(tokens_per_s=None).unseen_tokens == 4096
    monkeypatch.setattr(views, "_LIFETIME_S", 1)
    deadline = time.monotonic() + 30
    while meters[1].in_flight_everywhere:
        assert time.monotonic() < deadline
        await anyio.sleep(0.2)
        await other.views.exchange()
    assert other.views.others == ()
    assert meters[1].load(tokens_per_s=None).unseen_tokens == 0


async def test_redis_is_killed_and_comes_back(
    gateways: list[Gateway], redis_server: RedisServer
) -> None:
    one, other = gateways[:2]
    await _all([one, other])
    before = one.answer(3, at=time.monotonic())
    await _all([one, other])
    one.fleet.get("engine-0").meter.begun("r", tokens=10, at=time.monotonic())
    await _all([one, other])
    redis_server.stop()
    for each in (one, other):
        await each.views.exchange()
        await each.views.exchange()
        assert (each.views.up, each.views.failures, each.views.others) == (False, 1, ())
        assert len(list(each.views.reasons())) == 1
    assert other.fleet.get("engine-0").meter.in_flight_everywhere == 0
    lost = one.answer(4, at=time.monotonic())
    await one.views.exchange()
    assert one.outbox.untold > 0
    redis_server.start()
    await _all([one, other])
    assert (one.views.up, list(one.views.reasons())) == (True, [])
    after = one.answer(5, at=time.monotonic())
    await _all([one, other])
    assert [other.held(keys) for keys in (before, lost, after)] == [3, 0, 5]
    assert other.views.told()["missed"] == 1


async def test_a_silent_redis_costs_a_second_and_no_more(
    redis_server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(views, "_TIMEOUT_S", 1.0)
    one = Gateway(redis_server.url)
    await one.fleet.add("http://127.0.0.1:9", name="engine-0")
    assert redis_server.process is not None
    try:
        await one.views.exchange()
        with anyio.fail_after(60):
            while not one.views.up:  # a busy machine may have been silent itself
                await one.views.exchange()
        redis_server.process.send_signal(signal.SIGSTOP)
        with anyio.fail_after(20):
            await one.views.exchange()
        assert not one.views.up
    finally:
        redis_server.process.send_signal(signal.SIGCONT)
        await one.views.close()
        one.fleet.close()


async def test_nothing_of_a_prompt_can_be_read_in_redis(
    gateways: list[Gateway], redis_server: RedisServer
) -> None:
    await _all(gateways)
    keys = gateways[0].answer(9, at=time.monotonic())
    await _all(gateways)
    with redis.Redis.from_url(redis_server.url) as client:
        [stream] = client.scan_iter("foreword:views:notes:*")
        [[_, fields]] = client.xrange(stream)
        client.xadd(stream, {b"b": b"not ours"})
        client.xadd(stream, {b"other": b""})
    assert keys.key(0) not in fields[b"b"]
    assert b"127.0.0.1" not in fields[b"b"]
    stranger = Gateway(redis_server.url, secret=bytes(32))
    await stranger.fleet.add("http://127.0.0.1:9", name="engine-0")
    await stranger.views.exchange()
    assert stranger.views.told()["applied"] == 0
    await stranger.views.close()
    await _all(gateways)  # what others wrote there does no harm
    assert all(each.views.up for each in gateways)


async def test_old_notes_are_dropped(
    gateways: list[Gateway], redis_server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    gateways[0].answer(3, at=time.monotonic())
    await _all(gateways[:1])
    gateways[0].answer(3, at=time.monotonic())
    await _all(gateways[:1])
    monkeypatch.setattr(views, "_KEPT_S", 0)
    monkeypatch.setattr(views, "_TRIM_S", 0.0)
    with redis.Redis.from_url(redis_server.url) as client:
        [stream] = client.scan_iter("foreword:views:notes:*")
        assert client.xlen(stream) == 1
        await anyio.sleep(0.01)
        await gateways[0].views.exchange()
        assert client.exists(stream) == 0
