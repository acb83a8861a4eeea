"""What the gateway makes of the tier server's word about itself."""

import time

import pytest

from app.tier_client import TierClient
from app.tier_watch import TierWatch
from tests.app.tier_server import TierServer, adapter, running_tier_server

pytestmark = pytest.mark.anyio


async def look(server: TierServer) -> TierWatch:
    with running_tier_server(server):
        client = TierClient(server.url, timeout_s=30.0)
        watch = TierWatch(client)
        await watch.look()
        client.close()
        return watch


async def test_a_tier_server_that_is_away_is_told() -> None:
    watch = TierWatch(TierClient("http://127.0.0.1:9", timeout_s=30.0))
    assert watch.reasons == []
    await watch.look()
    assert "http://127.0.0.1:9" in watch.reasons[0]
    assert watch.keeps_all is False


async def test_the_size_of_a_chunk_stays_known_while_the_tier_server_is_away() -> None:
    watch = await look(TierServer())
    await watch.look()
    assert watch.status is None
    assert watch.chunk_tokens == 64


@pytest.mark.parametrize(("adapters", "losses"), [([], 1), ([adapter("ssd")], 0)])
async def test_a_server_that_is_started_anew_has_lost_what_was_in_ram_alone(
    adapters: list[dict[str, object]], losses: int
) -> None:
    server, lost = TierServer(adapters=adapters), list[None]()
    with running_tier_server(server):
        client = TierClient(server.url, timeout_s=30.0)
        watch = TierWatch(client, on_loss=lambda: lost.append(None))
        for server.instance in ("1", "1", "2", "2"):
            await watch.look()
        client.close()
    assert len(lost) == losses


async def test_failing_and_damaged_tiers_are_told_by_name() -> None:
    server = TierServer(
        adapters=[
            adapter("ssd", rejected=2),
            adapter("redis", state="failing", reason="connection refused"),
        ]
    )
    told = " ".join((await look(server)).reasons)
    assert "ssd gave back 2 chunks" in told
    assert "redis fails and is skipped for a while: connection refused" in told


async def test_a_tier_that_an_operator_switched_off_is_told_and_break_evens_is_left_to_it() -> None:
    server = TierServer(
        adapters=[
            adapter("ssd", state="off", reason="the disk is being replaced"),
            adapter("redis", state="off", reason="break-even: 900 tokens/s"),
        ]
    )
    assert (await look(server)).reasons == [
        "the tier ssd is switched off: the disk is being replaced"
    ]


async def test_a_probe_looks_again_only_when_the_last_look_is_old_and_never_waits_long() -> None:
    server = TierServer(adapters=[adapter("ssd")])
    with running_tier_server(server):
        client = TierClient(server.url, timeout_s=90.0)
        watch = TierWatch(client)
        await watch.looks.if_older(60)
        server.adapters[0]["state"] = "failing"
        await watch.looks.if_older(60)
        assert watch.reasons == []
        await watch.looks.if_older(0)
        assert "ssd fails" in watch.reasons[0]
        server.delay_s = 60.0
        began = time.monotonic()
        await watch.looks.if_older(0)
        assert time.monotonic() - began < 30
        server.delay_s = 0.0
        client.close()


@pytest.mark.parametrize(
    ("evicted", "adapters", "keeps"),
    [
        ({}, [], True),
        ({"ram": 3}, [], False),
        ({"ram": 3}, [adapter("ssd")], True),
        ({"ram": 3, "ssd": 1}, [adapter("ssd")], False),
        ({"ram": 3}, [adapter("ssd", failed_stores=1)], False),
        ({"ram": 3}, [adapter("ssd", state="failing")], False),
        ({"ram": 3}, [adapter("redis")], False),
    ],
)
async def test_what_left_the_ram_is_kept_only_by_a_disk_that_lost_nothing(
    evicted: dict[str, int], adapters: list[dict[str, object]], keeps: bool
) -> None:
    watch = await look(TierServer(evictions=evicted, adapters=adapters))
    assert watch.keeps_all is keeps
