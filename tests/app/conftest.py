"""A gateway in front of a simulated engine, for what must be fast or made to fail; databases."""

from collections.abc import Iterator
from pathlib import Path

import openai
import pytest
import sqlalchemy as sa

from app.database import open_database
from bench.engine_sim import SimulatorThread
from tests.app.clock import Clock
from tests.gateways import gateway_settings, running_gateway, wait_until_ready
from tests.postgres_server import PostgresServer
from tests.simulators import usual_config
from tests.tokenizer_folders import CHATML_TOOLS, write_tokenizer


@pytest.fixture(scope="session")
def tokenizer_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models") / "tiny"
    return write_tokenizer(folder, chat_template=CHATML_TOOLS)


@pytest.fixture(scope="module")
def simulator(tokenizer_folder: Path) -> Iterator[SimulatorThread]:
    with SimulatorThread(usual_config(tokenizer_folder, speedup=20)) as running:
        yield running


@pytest.fixture(scope="module")
def gateway(simulator: SimulatorThread, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    home = tmp_path_factory.mktemp("home")
    with running_gateway(gateway_settings(home, simulator.url)) as url:
        wait_until_ready(url)
        yield url


@pytest.fixture(scope="module")
def client(gateway: str) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{gateway}/v1", api_key="unused", max_retries=0) as made:
        yield made


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.slow)])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[sa.Engine]:
    """An empty one, of either kind."""
    where: Path | str = tmp_path / "foreword.db"
    if request.param == "postgresql":
        server: PostgresServer = request.getfixturevalue("postgres")
        where = server.create_database()
    engine = open_database(where)
    yield engine
    engine.dispose()


@pytest.fixture
def clock() -> Clock:
    return Clock()
