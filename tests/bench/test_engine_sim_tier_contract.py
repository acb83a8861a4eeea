"""The simulator with a tier keeps the contracts that the real engine with LMCache keeps."""

import pytest

from bench.engine_sim import SimulatorThread
from tests.contracts.cache_contract import CacheContract
from tests.contracts.client import StartedEngine
from tests.contracts.tier_contract import TierContract


@pytest.fixture
def engine(tiered_simulator: SimulatorThread) -> StartedEngine:
    model_path = tiered_simulator.config.model_path
    return StartedEngine(url=tiered_simulator.url, model_path=model_path)


class TestTieredSimulator(TierContract):
    pass


class TestTieredSimulatorCache(CacheContract):
    pass
