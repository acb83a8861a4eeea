"""The plan against what the real engine says of itself at its start, and while it computes."""

import re
import time
from collections.abc import AsyncIterator

import anyio
import anyio.lowlevel
import httpx
import pytest

from app.engine import EngineClient
from app.engine_speed import EngineSpeed
from app.live_plan import live_plan
from app.tier_client import TierClient
from app.upstream import Timeouts, Upstream
from cache.engine_loads import EngineLoads, parse_loads
from cache.kv_plan import KvPlan
from cache.kv_plan.tiers import SEAL_BYTES
from cache.usage import Tier
from tests.conftest import TINY_POOL_TOKENS, RealEngine

pytestmark = [pytest.mark.engine, pytest.mark.anyio]


@pytest.fixture
async def client(engine: RealEngine) -> AsyncIterator[EngineClient]:
    timeouts = Timeouts(connect_s=5, first_byte_s=60, between_bytes_s=60)
    client = EngineClient(Upstream(engine.url, timeouts=timeouts, max_connections=4))
    yield client
    client.close()
    await anyio.lowlevel.checkpoint()  # the transports close in the loop's next turn


async def plan_of(client: EngineClient) -> KvPlan:
    live = await live_plan(await client.info(), speed=EngineSpeed(client), policy=None)
    assert live.plan is not None, live.problem
    return live.plan


async def test_pool_and_weights_are_what_the_engine_allocated(
    engine: RealEngine, client: EngineClient
) -> None:
    plan = await plan_of(client)
    loads = parse_loads(await client.loads())
    assert plan.pool is not None
    assert plan.weights is not None
    assert plan.pool.tokens == loads.rank_pool_tokens == TINY_POOL_TOKENS
    assert loads.kv_pool_bytes is not None
    assert loads.kv_pool_bytes == pytest.approx(plan.pool.bytes, abs=2**20)
    log = engine.stack.home.log("engine-0").read_text(errors="replace")
    line = re.search(r"#tokens: (\d+), K size: ([\d.]+) GB, V size: ([\d.]+) GB", log)
    assert line is not None
    assert int(line[1]) == plan.pool.tokens
    said_gib = float(line[2]) + float(line[3])
    assert said_gib == pytest.approx(plan.pool.bytes / 2**30, abs=0.011)


def prefill(engine: RealEngine, tokens: int, *, first: int, salt: str) -> int:
    """Tokens computed for a prompt that nobody sent before."""
    body = {
        "input_ids": [first + n % 7 for n in range(tokens)],
        "sampling_params": {"max_new_tokens": 1, "temperature": 0},
        "cache_salt": salt,
    }
    answer = httpx.post(f"{engine.url}/generate", json=body, timeout=60, trust_env=False).json()
    return int(answer["meta_info"]["prompt_tokens"]) - int(answer["meta_info"]["cached_tokens"])


async def loads_after(client: EngineClient, before: EngineLoads, computed: int) -> EngineLoads:
    """The engine's load, once it has counted so many tokens; answers don't wait for that."""
    give_up = time.monotonic() + 60
    while True:
        loads = parse_loads(await client.loads())
        if loads.uncached_tokens - before.uncached_tokens >= computed:
            return loads
        assert time.monotonic() < give_up, (loads, before)
        await anyio.sleep(0.05)


async def test_counters_hold_what_was_computed_and_nothing_that_was_re_used(
    engine: RealEngine, client: EngineClient
) -> None:
    salt = engine.salt()
    before = parse_loads(await client.loads())
    began = time.monotonic()
    computed = prefill(engine, 1000, first=100, salt=salt)
    took_s = time.monotonic() - began
    cold = await loads_after(client, before, computed)
    assert computed == 1000
    assert cold.uncached_tokens - before.uncached_tokens == 1000
    assert 0 < cold.busy_s - before.busy_s <= took_s
    assert prefill(engine, 1000, first=100, salt=salt) == 1000 - 992
    warm = await loads_after(client, cold, 1000 - 992)
    assert warm.uncached_tokens - cold.uncached_tokens == 1000 - 992


async def test_speed_is_measured_from_long_prompts(
    engine: RealEngine, client: EngineClient
) -> None:
    speed = EngineSpeed(client)
    await speed.advance()
    assert speed.speed is None
    seconds = 0.0
    for first in (200, 300):
        began = time.monotonic()
        before = parse_loads(await client.loads())
        prefill(engine, 1500, first=first, salt=engine.salt())
        seconds += time.monotonic() - began
        await loads_after(client, before, 1500)
        await speed.advance()
    assert speed.speed is not None
    assert speed.speed.tokens == 3000
    assert 3000 / seconds * 0.5 < speed.speed.tokens_per_s < 3000 / seconds * 20


async def test_chunks_in_the_tiers_are_as_large_as_planned(
    engine: RealEngine, client: EngineClient
) -> None:
    plan = await plan_of(client)
    prefill(engine, 640, first=500, salt=engine.salt())
    assert engine.stack.tier_url is not None
    tiers = TierClient(engine.stack.tier_url)
    for _ in range(300):
        status = await tiers.status()
        ssd = next(each for each in status.adapters if each.tier is Tier.SSD)
        if ssd.used_bytes:
            break
        await anyio.sleep(0.2)
    tiers.close()
    assert status.chunk_bytes == plan.bytes_per_token * status.chunk_tokens
    assert ssd.used_bytes > 0
    assert ssd.used_bytes % (status.chunk_bytes + SEAL_BYTES) == 0
