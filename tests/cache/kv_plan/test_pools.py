"""From bytes to slots, and from a GPU to bytes."""

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cache.errors import GpuNotFoundError
from cache.kv_plan import (
    Gpu,
    KvPlan,
    PlanOptions,
    PoolShape,
    default_mem_fraction,
    find_gpu,
    gpu_names,
    make_plan,
    parse_model_config,
)
from cache.kv_plan.derivation import problems
from cache.kv_plan.pools import pool_for, pool_of
from cache.kv_plan.tiers import SEAL_BYTES, tier_capacities
from cache.tiers import RedisTier, TierSettings
from cache.usage import Tier
from tests import kv_plan_configs as models

GIB = 2**30
LLAMA = parse_model_config(models.LLAMA_31_8B)


def planned(facts: Mapping[str, object], **options: object) -> KvPlan:
    return make_plan(parse_model_config(facts), PlanOptions(**options))


shapes = st.builds(
    PoolShape,
    full=st.integers(1, 400_000),
    sliding=st.one_of(st.just(0), st.integers(1, 100_000)),
    slot=st.one_of(st.just(0), st.integers(1, 10**8)),
    page_tokens=st.sampled_from([1, 16, 64, 128]),
    slots_per_request=st.integers(3, 5),
)


@given(shapes, st.integers(-(10**9), 10**12))
def test_a_pool_never_takes_more_than_its_budget_and_a_spare_page(
    shape: PoolShape, budget: int
) -> None:
    pool = pool_for(shape, budget_bytes=budget)
    assert pool.tokens >= 0
    assert pool.tokens % shape.page_tokens == 0
    spare = shape.page_tokens * (shape.full + shape.sliding) + shape.slot
    assert pool.bytes + pool.state_bytes <= max(budget, 0) + spare


@given(shapes, st.integers(0, 10**11), st.integers(0, 10**11))
def test_more_memory_never_holds_less(shape: PoolShape, budget: int, more: int) -> None:
    smaller = pool_for(shape, budget_bytes=budget)
    larger = pool_for(shape, budget_bytes=budget + more)
    assert (larger.state_slots or 0) >= (smaller.state_slots or 0)
    if not shape.slot:
        assert larger.tokens >= smaller.tokens


@given(shapes, st.integers(0, 10**12))
def test_a_page_more_would_not_fit(shape: PoolShape, budget: int) -> None:
    pool = pool_for(shape, budget_bytes=budget)
    left = max(0, budget - pool.state_bytes)
    assert (pool.tokens + shape.page_tokens + 1) * shape.per_token > left


def test_a_bound_on_tokens_is_kept_and_rounded_to_pages() -> None:
    shape = PoolShape(full=1000, sliding=0, slot=0, page_tokens=16, slots_per_request=0)
    assert pool_for(shape, budget_bytes=10**9, most_tokens=1000).tokens == 992
    assert pool_of(shape, tokens=12_000).tokens == 12_000


def test_sliding_layers_get_a_share_of_the_tokens() -> None:
    shape = PoolShape(full=100, sliding=100, slot=0, page_tokens=16, slots_per_request=0)
    pool = pool_for(shape, budget_bytes=180 * 16_000)
    assert pool.tokens == 16_000
    assert pool.sliding_tokens == 12_800
    assert pool.bytes == (16_016 + 12_816) * 100


def test_states_and_kv_share_the_budget_nine_to_ten() -> None:
    shape = PoolShape(full=1000, sliding=0, slot=10**6, page_tokens=1, slots_per_request=5)
    pool = pool_for(shape, budget_bytes=1900 * 10**6)
    assert pool.state_slots == 899
    assert pool.state_bytes == 900 * 10**6
    assert pool.tokens == 1_000_000


def test_the_state_slots_may_bound_the_requests() -> None:
    plan = planned(
        models.QWEN3_NEXT_80B,
        gpu=find_gpu("h200"),
        weight_bytes=82 * GIB,
        context_tokens=1024,
    )
    assert plan.pool is not None
    assert plan.pool.state_slots is not None
    assert plan.concurrency == plan.pool.state_slots // 5 < plan.pool.tokens / 1024


@pytest.mark.parametrize(
    ("name", "ranks", "fraction"),
    [("T4", 1, 0.735), ("RTX 4090", 1, 0.704), ("l40s", 1, 0.843), ("H100", 1, 0.83)],
)
def test_memory_fraction_as_sglang_computes_it(name: str, ranks: int, fraction: float) -> None:
    """By hand: 512 + 1.5 x chunk + 128 x GPUs + 2 x decode batch + 8 x prefill graphs, in MiB."""
    gpu = find_gpu(name)
    assert default_mem_fraction(LLAMA, total_mib=gpu.total_mib, ranks=ranks) == fraction


def test_large_gpus_keep_ten_gib_free_at_least() -> None:
    small_chunks = default_mem_fraction(LLAMA, total_mib=61 * 1024)
    assert small_chunks == round((61 * 1024 - 13_904) / (61 * 1024), 3)
    kimi = parse_model_config(models.KIMI_LINEAR_48B)
    assert default_mem_fraction(kimi, total_mib=81559, latent=True) == 0.835


def test_a_vision_tower_leaves_more_free() -> None:
    plain, seeing = parse_model_config(models.LLAMA_31_8B), parse_model_config(models.GEMMA3_27B)
    assert default_mem_fraction(seeing, total_mib=81559) < default_mem_fraction(
        plain, total_mib=81559
    )


@given(st.floats(0, 300 * 1024), st.sampled_from([1, 2, 4, 8]))
def test_a_memory_fraction_is_a_fraction(total_mib: float, ranks: int) -> None:
    if total_mib > 0:
        assert 0 <= default_mem_fraction(LLAMA, total_mib=total_mib, ranks=ranks) < 1


@pytest.mark.parametrize(
    "name",
    ["H100", "h100", "NVIDIA H100 80GB HBM3", "nvidia-h100-80gb", "GeForce RTX 4090", "rtx4090"],
)
def test_gpus_are_found_however_they_are_spelled(name: str) -> None:
    assert find_gpu(name).total_mib in (81559, 24564)


def test_all_known_gpus_are_found_and_others_are_not() -> None:
    for name in gpu_names():
        assert find_gpu(name).name == name
    with pytest.raises(GpuNotFoundError, match="--gpu-memory-gib"):
        find_gpu("TPU v5")
    with pytest.raises(GpuNotFoundError):
        find_gpu("V100")  # SGLang 0.5.23 needs sm75


def test_weights_that_do_not_fit_are_a_problem_with_a_way_out() -> None:
    plan = planned(models.LLAMA_31_70B, gpu=find_gpu("L4"))
    assert plan.pool is not None
    assert plan.pool.tokens == 0
    assert plan.concurrency == 0
    assert "--tp" in problems(plan)[0]


def test_a_gpu_that_is_hardly_there() -> None:
    plan = planned(models.LLAMA_31_8B, gpu=Gpu(name=None, total_mib=300))
    assert plan.pool is not None
    assert plan.pool.tokens == 0


def test_gpus_together_hold_a_share_of_the_weights_each() -> None:
    one = planned(models.LLAMA_31_70B, gpu=find_gpu("H100"), ranks=4)
    assert one.memory is not None
    assert one.weights is not None
    assert one.memory.weight_bytes == pytest.approx(one.weights.bytes / 4)
    assert problems(one) == ()


@given(
    st.integers(1, 400_000),
    st.sampled_from([64, 256, 1024]),
    st.floats(0.001, 2000),
    st.sampled_from([1, 2, 8]),
)
def test_tiers_hold_whole_chunks_that_fit(
    per_token: int, chunk: int, gib: float, objects: int
) -> None:
    settings = TierSettings(
        chunk_tokens=chunk,
        ram_gb=gib,
        ssd_gb=gib,
        redis=RedisTier(host="kv", port=6379, max_gb=gib),
    )
    for tier in tier_capacities(settings, bytes_per_token=per_token, objects=objects):
        assert tier.tokens is not None
        assert tier.tokens % chunk == 0
        assert tier.tokens // chunk * tier.chunk_bytes <= gib * GIB
        assert tier.chunk_bytes >= per_token * chunk * objects


def test_encryption_adds_its_bytes_below_ram_only() -> None:
    settings = TierSettings(ssd_gb=1, redis=RedisTier(host="kv", port=6379))
    ram, ssd, redis = tier_capacities(settings, bytes_per_token=8192)
    assert (ram.tier, ssd.tier, redis.tier) == (Tier.RAM, Tier.SSD, Tier.REDIS)
    assert ssd.chunk_bytes == ram.chunk_bytes + SEAL_BYTES
    assert redis.tokens is None


def test_a_latent_is_stored_once_however_many_gpus() -> None:
    tiers = TierSettings()
    eight = planned(models.DEEPSEEK_V3, ranks=8, tiers=tiers)
    one = planned(models.DEEPSEEK_V3, tiers=tiers)
    assert eight.tiers == one.tiers
    heads = planned(models.LLAMA_31_70B, ranks=8, tiers=tiers).tiers
    alone = planned(models.LLAMA_31_70B, tiers=tiers).tiers
    assert heads is not None
    assert alone is not None
    assert [tier.tokens for tier in heads] == [tier.tokens for tier in alone]


@pytest.mark.parametrize("facts", [models.QWEN3_NEXT_80B, models.GPT_OSS_120B])
def test_tiers_of_models_with_several_kinds_of_kv_are_not_guessed(
    facts: Mapping[str, object],
) -> None:
    assert planned(facts, tiers=TierSettings()).tiers is None


def test_a_corpus_in_the_pool() -> None:
    plan = planned(models.QWEN3_14B, pool_tokens=72_064, corpus_tokens=20_010)
    corpus = plan.corpus
    assert corpus is not None
    assert corpus.held_tokens == 20_000
    assert corpus.bytes == 20_000 * 163_840
    assert corpus.share_of_pool == pytest.approx(20_000 / 72_064)
    assert corpus.left_tokens == 20_950
    assert corpus.fits_window
    assert corpus.fits_pool


def test_a_corpus_that_is_too_long_is_a_problem() -> None:
    plan = planned(models.QWEN3_14B, pool_tokens=4096, corpus_tokens=40_960)
    assert any("context window" in problem for problem in problems(plan))
    assert any("doesn't fit the pool" in problem for problem in problems(plan))
