"""A running engine's plan in text and JSON."""

import json

import pytest

from cache.break_even import break_even
from cache.engine_loads import EngineLoads
from cache.kv_plan import PlanOptions, make_plan, parse_model_config
from cache.kv_plan.live import LivePlan, LiveTier, live_json, live_text, live_tiers
from cache.load_cost import LoadCost
from cache.prefill_speed import PrefillSpeed
from cache.tier_status import RamStatus, TierStatus
from tests.kv_plan_configs import QWEN3_8B

SPEED = PrefillSpeed(tokens_per_s=8000, tokens=20_000)


def tier(name: str, tokens_per_s: float, *, latency_s: float = 0, enabled: bool = True) -> LiveTier:
    cost = LoadCost(latency_s=latency_s, s_per_token=1 / tokens_per_s, loads=10, tokens=10_000)
    return LiveTier(
        name=name,
        used_bytes=1,
        capacity_bytes=10**9,
        tokens=6400,
        enabled=enabled,
        found=break_even(cost, SPEED),
    )


def live(*tiers: LiveTier) -> LivePlan:
    plan = make_plan(parse_model_config(QWEN3_8B), PlanOptions(pool_tokens=50_000))
    loads = EngineLoads(
        uncached_tokens=0,
        busy_s=0,
        pool_tokens=50_000,
        used_tokens=1_234,
        running_requests=0,
        waiting_requests=0,
        kv_pool_bytes=50_016 * 147_456,
        weight_bytes=None,
        rank_pool_tokens=50_000,
    )
    return LivePlan(
        model="qwen3-8b",
        plan=plan,
        problem=None,
        loads=loads,
        page_tokens=16,
        speed=SPEED,
        tiers=tiers,
    )


def test_text_sets_each_tier_against_computing() -> None:
    text = live_text(
        live(
            tier("ram", 200_000),
            tier("ssd", 20_000, latency_s=0.1),
            tier("redis", 4000, enabled=False),
        )
    )
    assert "1,234 of 50,000 tokens" in text
    assert "147,456 B a token by the engine's own figures" in text
    assert "8,000 prompt tokens/s computed" in text
    assert "ram    6,400 tokens; pays: loads 200,000 tokens/s" in text
    assert "loads 20,000 tokens/s and 0.100 s each, pays from 1,333 tokens" in text
    assert "redis  6,400 tokens; slower than computing: loads 4,000 tokens/s; switched off" in text


def test_json_is_strict_and_null_where_nothing_is_known() -> None:
    body = json.loads(json.dumps(live_json(live(tier("ram", 1e300))), allow_nan=False))
    assert body["engine"]["measured_kv_bytes_per_token"] == 147_456
    assert body["tiers"][0]["verdict"] == "pays"
    unknown = LivePlan(
        model="m", plan=None, problem="no", loads=None, page_tokens=16, speed=None, tiers=()
    )
    nothing = live_json(unknown)
    assert nothing["plan"] is None
    assert set(dict(nothing["engine"]).values()) == {None, 0}
    assert "m: no" in live_text(unknown)


@pytest.mark.parametrize("ranks", [1, 2, 8])
def test_a_tier_holds_chunks_of_all_ranks(ranks: int) -> None:
    """As the guard tells a chunk's bytes: the sum over the ranks."""
    ram = RamStatus(used_bytes=0, capacity_bytes=10**8, chunks=0, bytes=0, seconds=0)
    status = TierStatus(
        instance="a",
        chunk_tokens=64,
        chunk_bytes=10**6 * ranks,
        ram=ram,
        adapters=(),
        evictions={},
        salt_keys=0,
        salts_destroyed=0,
    )
    (held,) = live_tiers(status, {})
    assert held.tokens == 80 // ranks * 64
