"""A warming leaves the engine to users' requests while there are some."""

import time
from pathlib import Path

import pytest

from app.corpora.warming import Warming
from app.engine import EngineClient
from app.upstream import Timeouts, Upstream
from bench.engine_sim import ClockConfig, SimulatorThread
from tests.app.corpora.conftest import PAGE, simulator_config

pytestmark = pytest.mark.anyio

TOKENS, STEP = 4000 // PAGE * PAGE, 400 // PAGE * PAGE


async def warmed_in_s(simulator: SimulatorThread, salt: str, *, busy: bool) -> float:
    """Of a warming under a salt of its own."""
    upstream = Upstream(
        simulator.url,
        timeouts=Timeouts(connect_s=5, first_byte_s=60, between_bytes_s=60),
        max_connections=4,
    )
    client = EngineClient(upstream)
    warming = Warming(
        client=client,
        ids=[7 + n % 200 for n in range(TOKENS)],
        salt=salt,
        step_tokens=STEP,
        multiple=PAGE,
        priority=None,
        wanted=lambda: True,
        busy=lambda: busy,
        learned=lambda _tokens: None,
    )
    began = time.monotonic()
    try:
        found = await warming.run()
    finally:
        client.close()
    assert found is not None
    assert found.resident
    return time.monotonic() - began


async def test_others_get_as_long_as_a_piece_took(tokenizer_folder: Path) -> None:
    config = simulator_config(tokenizer_folder, clock=ClockConfig(speedup=1))
    with SimulatorThread(config) as simulator:
        alone = await warmed_in_s(simulator, "one", busy=False)
        beside = await warmed_in_s(simulator, "other", busy=True)
    assert beside > 1.4 * alone
