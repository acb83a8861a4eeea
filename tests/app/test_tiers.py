"""Where tier servers are said to be, and what is asked of several of them."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from app.books import BookShelf
from app.errors import InvalidSettingError
from app.fleet.fleet import Fleet
from app.fleet.opening import open_fleet
from app.settings import ReplicasSettings, Settings, TiersSettings
from app.tier_client import TierClient
from app.tier_salts import SaltKeys, may_forget, salt_keys
from app.tiers import Tiers, TierSide, check_tiers, sides_of
from bench.engine_sim import SimulatorThread, TierConfig
from tests.app.conditions import becomes
from tests.app.corpora.conftest import corpus_settings, long_text, rig, simulator_config
from tests.app.tier_server import TierServer, running_tier_server
from tests.gateways import gateway_settings

pytestmark = pytest.mark.anyio

ENGINES = ("http://engine-a:30000", "http://engine-b:30000")


def settings(*, replicas: tuple[str, ...] = ENGINES, **tiers: object) -> Settings:
    return Settings(
        replicas=ReplicasSettings(urls=replicas), tiers=TiersSettings.model_validate(tiers)
    )


def urls(made: Tiers, *engines: str) -> list[str | None]:
    sides = [made.of(f"engine-{number}", url) for number, url in enumerate(engines)]
    return [side.client.url if side.client is not None else None for side in sides]


def test_one_tier_server_is_shared_by_all() -> None:
    made = Tiers(settings(url="http://tier:8090"))
    assert made.of("engine-0", ENGINES[0]) is made.of("engine-1", ENGINES[1]) is made.shared
    assert urls(made, *ENGINES) == ["http://tier:8090"] * 2
    nowhere = Tiers(settings())
    assert nowhere.shared is not None
    assert urls(nowhere, ENGINES[0]) == [None]


def test_each_replicas_own_is_found_by_its_place_in_the_list() -> None:
    made = Tiers(settings(urls=("http://tier-a:8090", "http://tier-b:8090")))
    assert made.shared is None
    asked = (ENGINES[1] + "/", ENGINES[0], "http://engine-c:30000")
    assert urls(made, *asked) == ["http://tier-b:8090", "http://tier-a:8090", None]
    assert made.of("engine-7", ENGINES[0]).name == "engine-7"


def test_each_replicas_own_is_found_however_its_url_is_written() -> None:
    replicas = ("HTTP://Engine-A:30000/", ENGINES[1])
    made = Tiers(settings(replicas=replicas, urls=("http://tier-a:8090", "http://tier-b:8090")))
    asked = (ENGINES[0], "http://ENGINE-B:30000/")
    assert urls(made, *asked) == ["http://tier-a:8090", "http://tier-b:8090"]


def test_each_replicas_own_is_found_beside_it() -> None:
    made = Tiers(settings(replicas=(), port=8090))
    asked = ("http://10.0.0.7:30000", "https://[fd00::7]:30000", "http://engine-c")
    found = ["http://10.0.0.7:8090", "http://[fd00::7]:8090", "http://engine-c:8090"]
    assert urls(made, *asked) == found


@pytest.mark.parametrize(
    ("told", "problem"),
    [
        ({"url": "http://t:1", "port": 1}, "TIERS__PORT: can't be set beside tiers.url"),
        ({"urls": ("http://t:1",)}, "names 1 tier servers and replicas.urls 2 engines"),
        ({"urls": ("http://t:1", "http://t:1/")}, "names one twice"),
        ({"urls": ("http://t:1", "tcp://t:2")}, "TIERS__URLS: .*not an http"),
        ({"url": "tier:8090"}, "TIERS__URL: .*not an http"),
    ],
)
def test_settings_that_name_no_way_to_tier_servers_are_refused(
    told: dict[str, Any], problem: str
) -> None:
    with pytest.raises(InvalidSettingError, match=problem):
        check_tiers(settings(**told))


def test_a_list_of_tier_servers_is_refused_where_replicas_are_discovered() -> None:
    found = ReplicasSettings(urls=ENGINES, discovery="dns", dns="engines:30000")
    told = settings(urls=("http://t:1", "http://t:2")).model_copy(update={"replicas": found})
    with pytest.raises(InvalidSettingError, match=r"TIERS__URLS: .*replicas.discovery = dns"):
        check_tiers(told)


@pytest.mark.parametrize(
    "told", [{}, {"port": 8090}, {"url": "http://t:1"}, {"urls": ("http://t:1", "http://t:2")}]
)
def test_one_way_to_tier_servers_is_taken(told: dict[str, Any]) -> None:
    check_tiers(settings(**told))


@contextmanager
def fleet_of(home: Path, **tiers: object) -> Iterator[Fleet]:
    told = gateway_settings(home, "http://127.0.0.1:9").model_copy(
        update={"tiers": TiersSettings.model_validate(tiers)}
    )
    made = open_fleet(told, BookShelf(told.accounting, key=b"key"), tiers=Tiers(told))
    yield made
    made.close()


async def test_discovered_replicas_bring_their_tier_servers_and_take_them_along(
    tmp_path: Path,
) -> None:
    with fleet_of(tmp_path, port=8090) as fleet:
        first = await fleet.add("http://127.0.0.2:30000")
        second = await fleet.add("http://127.0.0.3:30000")
        sides = sides_of(fleet.replicas)
        assert [side.name for side in sides] == [first.name, second.name]
        assert [side.policy is not None for side in sides] == [True, True]
        fleet.remove(first.name)
        assert [side.name for side in sides_of(fleet.replicas)] == [second.name]
        keys = salt_keys(fleet, Tiers(settings(port=8090)))
        assert keys.are_own
        assert not await keys.round().destroy("s")  # nobody answers there


@contextmanager
def side_of(name: str, server: TierServer | None) -> Iterator[TierSide]:
    client = TierClient(server.url, timeout_s=5.0) if server is not None else None
    side = TierSide(name, client, TiersSettings())
    yield side
    side.close()


async def test_a_salts_key_is_destroyed_on_all_tier_servers_or_it_waits() -> None:
    with ExitStack() as stack:
        servers = [stack.enter_context(running_tier_server(TierServer())) for _ in range(2)]
        away = TierServer(url="http://127.0.0.1:9")
        sides = [
            stack.enter_context(side_of(f"engine-{number}", server))
            for number, server in enumerate((*servers, away))
        ]
        keys = SaltKeys(lambda: sides, are_own=True)
        trial = keys.round()
        assert not await trial.destroy("a")
        assert not await trial.destroy("b")  # the one that failed isn't asked again
        assert "http://127.0.0.1:9" in str(trial.problem)
        assert trial.can_tell("c")
        assert [server.destroyed for server in servers] == [["a", "b"]] * 2
        del sides[2]
        assert await keys.round().destroy("a")


async def test_a_tier_server_that_nobody_knows_keeps_a_deletion_waiting() -> None:
    with (
        running_tier_server(TierServer()) as server,
        side_of("engine-0", server) as known,
        side_of("engine-1", None) as unknown,
    ):
        trial = SaltKeys(lambda: [known, unknown], are_own=True).round()
        assert not await trial.destroy("a")
        assert "engine-1" in str(trial.problem)
        assert server.destroyed == ["a"]
    nobody = SaltKeys(list, are_own=True).round()
    assert not await nobody.destroy("a")
    assert not nobody.is_done("a")


async def test_a_tier_server_is_told_once_for_each_of_its_starts() -> None:
    with running_tier_server(TierServer()) as server, side_of("engine-0", server) as side:
        keys = SaltKeys(lambda: [side], are_own=True)
        assert side.watch is not None
        await side.watch.look()
        assert await keys.round().destroy("a")
        assert keys.round().is_done("a")
        server.instance = "2"  # another pod's, at the same address
        await side.watch.look()
        trial = keys.round()
        assert not trial.is_done("a")
        assert await trial.destroy("a")
        assert server.destroyed == ["a", "a"]


async def test_a_tier_server_that_missed_a_look_is_not_told_again() -> None:
    with running_tier_server(TierServer()) as server, side_of("engine-0", server) as side:
        sides = [side]
        keys = SaltKeys(lambda: sides, are_own=True)
        assert side.watch is not None
        await side.watch.look()
        assert await keys.round().destroy("a")
        side.watch.status = None  # as a look that failed leaves it
        trial = keys.round()
        assert trial.is_done("a")
        assert not trial.is_done("b")
        await side.watch.look()
        assert keys.round().is_done("a")
        sides.clear()
        assert not keys.round().is_done("a")
        sides.append(side)
        assert not keys.round().is_done("a")  # it may have been anywhere


async def test_a_round_knows_whom_it_can_still_tell() -> None:
    with (
        running_tier_server(TierServer()) as server,
        side_of("engine-0", server) as side,
        side_of("engine-1", TierServer(url="http://127.0.0.1:9")) as away,
    ):
        assert side.watch is not None
        await side.watch.look()
        trial = SaltKeys(lambda: [side, away], are_own=True).round()
        assert trial.can_tell("a")
        assert not await trial.destroy("a")
        assert not trial.can_tell("a")
        assert trial.can_tell("b")


def test_a_deletion_is_remembered_for_90_days() -> None:
    now = datetime.now(UTC)
    assert not may_forget(now - timedelta(days=89))
    assert may_forget(now - timedelta(days=91))
    assert may_forget((now - timedelta(days=91)).replace(tzinfo=None))


@pytest.mark.slow
async def test_a_corpus_is_in_no_tier_once_a_server_with_ram_alone_was_started_anew(
    tokenizer_folder: Path, tmp_path: Path
) -> None:
    engine = simulator_config(tokenizer_folder, tier=TierConfig())
    with running_tier_server(TierServer()) as server, SimulatorThread(engine) as simulator:
        told = corpus_settings(tmp_path, simulator).model_copy(
            update={
                "replicas": ReplicasSettings(urls=(simulator.url,)),
                "tiers": TiersSettings(urls=(server.url,), timeout_s=10.0),
            }
        )
        async with rig(told, simulator) as it:
            (side,) = sides_of(it.services.fleet.replicas)
            assert side.watch is not None
            await side.watch.look()
            collection = it.collection("ferry", long_text("The ferry leaves at nine", 60))
            status = await it.services.corpora.warm(collection, why="test")
            assert await becomes(lambda: it.status(collection).tiered_tokens == status.tokens)
            server.instance = "2"
            await side.watch.look()
            assert await becomes(lambda: it.status(collection).tiered_tokens == 0)
