"""A gateway in front of a simulated engine: for what must be fast, or made to fail."""

from collections.abc import Iterator
from pathlib import Path

import openai
import pytest

from bench.engine_sim import ClockConfig, EventsConfig, SimulatorConfig, SimulatorThread
from tests.gateways import gateway_settings, running_gateway, wait_until_ready
from tests.tokenizer_folders import CHATML_TOOLS, write_tokenizer


@pytest.fixture(scope="session")
def tokenizer_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models") / "tiny"
    return write_tokenizer(folder, chat_template=CHATML_TOOLS)


@pytest.fixture(scope="module")
def simulator(tokenizer_folder: Path) -> Iterator[SimulatorThread]:
    config = SimulatorConfig(
        model_path=tokenizer_folder,
        labels=("template", "tenant"),
        clock=ClockConfig(speedup=20),
        events=EventsConfig(replay_endpoint="tcp://127.0.0.1:0", topic="kv"),
    )
    with SimulatorThread(config) as running:
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
