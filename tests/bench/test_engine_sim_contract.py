"""The simulator keeps the contracts that the real engine keeps."""

import pytest

from bench.engine_sim import SimulatorThread
from tests.contracts.client import StartedEngine
from tests.contracts.engine_contract import EngineContract
from tests.contracts.kv_events_contract import KvEventsContract


@pytest.fixture
def engine(simulator: SimulatorThread) -> StartedEngine:
    return StartedEngine(url=simulator.url, model_path=simulator.config.model_path)


class TestSimulator(EngineContract):
    pass


class TestSimulatorEvents(KvEventsContract):
    quiet_s = 0.15
