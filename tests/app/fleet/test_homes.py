"""A corpus is kept by one replica, and by another one when that takes no more requests."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import anyio
import pytest

from app.corpora import CorpusState
from app.services import open_services
from app.settings import ReplicasSettings
from bench.engine_sim import SimulatorThread
from tests.app.conditions import becomes
from tests.app.corpora.conftest import Rig, corpus_settings, long_text, simulator_config

pytestmark = [pytest.mark.anyio, pytest.mark.slow]
FERRY, TOWER = long_text("The ferry leaves at nine", 60), long_text("The tower is open", 60)


@asynccontextmanager
async def two(folder: Path, home: Path) -> AsyncIterator[Rig]:
    async with AsyncExitStack() as stack:
        engines = [stack.enter_context(SimulatorThread(simulator_config(folder))) for _ in range(2)]
        urls = tuple(engine.url for engine in engines)
        settings = corpus_settings(home, engines[0]).model_copy(
            update={"replicas": ReplicasSettings(urls=urls)}
        )
        services = await stack.enter_async_context(open_services(settings))
        yield Rig(services=services, simulator=engines[0])


async def test_a_corpus_moves_when_its_home_is_cordoned(
    tokenizer_folder: Path, tmp_path: Path
) -> None:
    async with two(tokenizer_folder, tmp_path) as it:
        fleet, corpora = it.services.fleet, it.services.corpora
        collection = it.collection("ferry", FERRY, TOWER)
        status = await corpora.warm(collection, why="test")
        assert status.state is CorpusState.RESIDENT, status
        first = corpora.home(collection.id)
        assert first is not None
        fleet.cordon(first)
        assert await becomes(lambda: corpora.home(collection.id) not in (None, first))
        await it.state(collection, CorpusState.RESIDENT)
        second = corpora.home(collection.id)
        fleet.uncordon(first)
        await anyio.sleep(0.5)
        assert corpora.home(collection.id) == second  # it stays where it is warm


async def test_homes_are_the_same_in_every_gateway(tokenizer_folder: Path, tmp_path: Path) -> None:
    async with two(tokenizer_folder, tmp_path) as it:
        fleet = it.services.fleet
        homes = [fleet.home(b"collection-%d" % number, None) for number in range(20)]
        names = [replica.name for replica in homes if replica is not None]
        assert set(names) == {"engine-0", "engine-1"}
        assert names == [
            replica.name
            for number in range(20)
            if (replica := fleet.home(b"collection-%d" % number, None)) is not None
        ]
