"""Simulated engines for this folder's tests."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.engine_sim import (
    ClockConfig,
    EventsConfig,
    SimulatorConfig,
    SimulatorThread,
    TierConfig,
)
from tests.tokenizer_folders import CHATML_TOOLS, write_tokenizer

FAST = ClockConfig(speedup=50)


@pytest.fixture(scope="session")
def model_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model folder with a small trained tokenizer that has an end-of-turn token."""
    folder = write_tokenizer(tmp_path_factory.mktemp("model"), chat_template=CHATML_TOOLS)
    named = {"eos_token": "<|im_end|>", "model_max_length": 8192}
    (folder / "tokenizer_config.json").write_text(json.dumps(named))
    return folder


@pytest.fixture(scope="session")
def simulator(model_path: Path) -> Iterator[SimulatorThread]:
    """A replica with labels and KV events, without a tier."""
    config = SimulatorConfig(
        model_path=model_path,
        served_model_name="sim",
        labels=("template", "tenant"),
        clock=FAST,
        events=EventsConfig(replay_endpoint="tcp://127.0.0.1:0", topic="kv"),
    )
    with SimulatorThread(config) as running:
        yield running


@pytest.fixture(scope="session")
def tiered_simulator(model_path: Path) -> Iterator[SimulatorThread]:
    """A replica with a tier behind it."""
    config = SimulatorConfig(
        model_path=model_path, served_model_name="sim", clock=FAST, tier=TierConfig()
    )
    with SimulatorThread(config) as running:
        yield running
