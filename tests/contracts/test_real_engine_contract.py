"""The contracts on the real SGLang: what the simulator is held to.

The fixture `engine` starts it once for the run, with a cache report, metrics with the labels
`template` and `tenant`, KV events with replay, and LMCache behind it.
"""

import pytest

from tests.contracts.engine_contract import EngineContract
from tests.contracts.kv_events_contract import KvEventsContract
from tests.contracts.tier_contract import TierContract

pytestmark = [pytest.mark.engine]


class TestRealEngine(EngineContract):
    pass


class TestRealEngineEvents(KvEventsContract):
    pass


class TestRealEngineTier(TierContract):
    pass
