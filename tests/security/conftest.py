"""A gateway in front of a simulated engine, to be attacked."""

from collections.abc import Iterator

import pytest

from bench.engine_sim import ClockConfig, SimulatorConfig, SimulatorThread
from tests.gateways import gateway_settings, running_gateway, wait_until_ready
from tests.tokenizer_folders import CHATML_TOOLS, write_tokenizer


@pytest.fixture(scope="session")
def simulator_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = write_tokenizer(tmp_path_factory.mktemp("models") / "tiny", chat_template=CHATML_TOOLS)
    config = SimulatorConfig(
        model_path=folder, labels=("template", "tenant"), clock=ClockConfig(speedup=20)
    )
    with SimulatorThread(config) as running:
        yield running.url


@pytest.fixture(scope="session")
def gateway(simulator_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    home = tmp_path_factory.mktemp("home")
    with running_gateway(gateway_settings(home, simulator_url)) as url:
        wait_until_ready(url)
        yield url
