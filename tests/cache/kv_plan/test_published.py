"""The plan against figures that others published: engine logs, and arithmetic done by hand."""

from collections.abc import Mapping

import pytest

from cache.kv_plan import KvPlan, PlanOptions, find_gpu, make_plan, parse_model_config
from cache.kv_plan.pools import PoolShape, pool_for
from tests import kv_plan_configs as models

GIB = 2**30


def planned(facts: Mapping[str, object], **options: object) -> KvPlan:
    return make_plan(parse_model_config(facts), PlanOptions(**options))


@pytest.mark.parametrize(
    ("facts", "kv_dtype", "per_token"),
    [
        (models.LLAMA_31_8B, "auto", 128 * 1024),
        (models.LLAMA_31_8B, "fp8_e4m3", 64 * 1024),
        (models.LLAMA_31_70B, "auto", 320 * 1024),
        (models.QWEN3_8B, "auto", 144 * 1024),
        (models.QWEN3_14B, "auto", 160 * 1024),
        (models.QWEN3_32B, "auto", 256 * 1024),
        (models.QWEN3_30B_A3B, "auto", 96 * 1024),
        (models.DEEPSEEK_V3, "auto", 70_272),
        (models.DEEPSEEK_V3, "fp8_e4m3", 35_136),
        (models.GEMMA3_27B, "auto", 62 * 16 * 256 * 2),
        (models.GEMMA3_4B, "auto", 34 * 4 * 512 * 2),
        (models.GPT_OSS_120B, "auto", 72 * 1024),
        (models.MISTRAL_7B, "auto", 128 * 1024),
        (models.QWEN3_NEXT_80B, "auto", 24 * 1024),
        (models.NEMOTRON_H_8B, "auto", 4 * 8 * 256 * 2),
        (models.FALCON_H1_7B, "auto", 44 * 2 * 256 * 2),
        (models.KIMI_LINEAR_48B, "auto", 7 * 576 * 2),
        (models.GEMMA2_9B, "auto", 42 * 8 * 512 * 2),
        (models.GRANITE_4_TINY, "auto", 4 * 4 * 256 * 2),
        (models.LFM2_1B, "auto", 6 * 8 * 128 * 2),
        (models.STARCODER, "auto", 40 * 1 * 256 * 2),
    ],
)
def test_bytes_per_token_are_what_the_shapes_say(
    facts: Mapping[str, object], kv_dtype: str, per_token: int
) -> None:
    assert planned(facts, kv_dtype=kv_dtype).bytes_per_token == per_token


@pytest.mark.parametrize(
    ("facts", "ranks", "per_token"),
    [
        (models.LLAMA_31_70B, 8, 40 * 1024),
        (models.LLAMA_31_70B, 16, 40 * 1024),
        (models.DEEPSEEK_V3, 8, 70_272),
    ],
)
def test_gpus_share_heads_but_each_keeps_one_and_all_of_a_latent(
    facts: Mapping[str, object], ranks: int, per_token: int
) -> None:
    assert planned(facts, ranks=ranks).bytes_per_token == per_token


@pytest.mark.parametrize(
    ("facts", "state_bytes"),
    [
        (models.QWEN3_NEXT_80B, 36 * (3 * 8192 * 2 + 32 * 128 * 128 * 4)),
        (models.NEMOTRON_H_8B, 24 * (3 * 10240 * 2 + 128 * 64 * 128 * 4)),
        (models.FALCON_H1_7B, 44 * (3 * 4096 * 2 + 24 * 128 * 256 * 4)),
        (models.KIMI_LINEAR_48B, 20 * (3 * 3 * 4096 * 2 + 32 * 128 * 128 * 4)),
        (models.GRANITE_4_TINY, 36 * (3 * 3328 * 2 + 48 * 64 * 128 * 4)),
        (models.LFM2_1B, 10 * 2 * 2048 * 2),
        (models.LLAMA_31_8B, 0),
    ],
)
def test_states_are_constant_for_each_request(
    facts: Mapping[str, object], state_bytes: int
) -> None:
    assert planned(facts).shape.slot == state_bytes


@pytest.mark.parametrize(
    ("gib", "tokens", "requests"), [(11.00, 72_064, 1.76), (29.15, 191_056, 4.66)]
)
def test_published_pools_of_a_14b_model(gib: float, tokens: int, requests: float) -> None:
    """vLLM's boot log of Qwen3-14B, bf16 and AWQ, on a GPU of 46 GB."""
    plan = planned(models.QWEN3_14B, pool_tokens=tokens)
    assert round(tokens * plan.bytes_per_token / GIB, 2) == gib
    assert plan.pool is not None
    assert plan.pool.tokens == tokens
    assert plan.context_tokens == 40_960
    assert plan.concurrency == pytest.approx(requests, abs=0.005)
    shape = PoolShape.of(plan.layout, number_bytes=2, ranks=1, page_tokens=16)
    lowest, highest = (round((gib + step) * GIB) for step in (-0.005, 0.005))
    assert pool_for(shape, budget_bytes=lowest).tokens <= tokens
    assert pool_for(shape, budget_bytes=highest).tokens >= tokens


def test_quantised_weights_leave_as_much_more_room_as_was_published() -> None:
    """29.15 GiB with AWQ against 11.00 GiB in bf16, on one GPU: the weights are the difference."""
    whole, small = planned(models.QWEN3_14B), planned(models.QWEN3_14B_AWQ)
    assert whole.weights is not None
    assert small.weights is not None
    difference = (whole.weights.bytes - small.weights.bytes) / GIB
    assert difference == pytest.approx(29.15 - 11.00, abs=0.1)


def test_published_sglang_log_of_llama_on_an_h100() -> None:
    """SGLang's documentation, January 2025: 78.81 GiB free before loading, 63.72 after it, memory
    fraction 0.88, 27.13 GB each for keys and values, max_total_num_tokens=444500."""
    plan = planned(
        models.LLAMA_31_8B,
        gpu=find_gpu("H100"),
        free_mib=78.81 * 1024,
        mem_fraction=0.88,
        weight_bytes=round((78.81 - 63.72) * GIB),
        page_tokens=1,
    )
    assert plan.pool is not None
    assert plan.pool.tokens == pytest.approx(444_500, rel=2e-4)
    assert plan.pool.bytes / GIB == pytest.approx(27.13 * 2, abs=0.01)


def test_published_sglang_log_of_a_mixture_in_fp8_with_all_defaults() -> None:
    """SGLang's boot log of Qwen3-30B-A3B-FP8 on an H100, August 2026: 78.48 GiB free before
    loading, mem_fraction_static=0.83 by itself, 58 prefill graphs, 29.15 GB of weights,
    #tokens: 392920, 17.99 GB each for keys and values."""
    fp8 = {"quant_method": "fp8", "weight_block_size": [128, 128]}
    plan = planned(
        {**models.QWEN3_30B_A3B, "quantization_config": fp8},
        gpu=find_gpu("H100"),
        free_mib=78.48 * 1024,
        page_tokens=1,
    )
    assert plan.memory is not None
    assert plan.memory.mem_fraction == 0.83
    assert plan.memory.weight_bytes / GIB == pytest.approx(29.15, rel=0.01)
    assert plan.pool is not None
    assert plan.pool.tokens == pytest.approx(392_920, rel=0.01)
    told = pool_for(plan.shape, budget_bytes=round((78.48 * 0.83 - 29.15) * GIB))
    assert told.tokens == pytest.approx(392_920, rel=1e-3)
    assert told.bytes / GIB == pytest.approx(17.99 * 2, abs=0.03)


@pytest.mark.parametrize(
    ("facts", "billions"),
    [
        (models.LLAMA_31_8B, 8.03),
        (models.LLAMA_31_70B, 70.55),
        (models.QWEN3_14B, 14.77),
        (models.QWEN3_32B, 32.76),
        (models.QWEN3_30B_A3B, 30.53),
        (models.MISTRAL_7B, 7.24),
        (models.MIXTRAL_8X7B, 46.70),
    ],
)
def test_counted_weights_are_those_of_the_model_card(
    facts: Mapping[str, object], billions: float
) -> None:
    weights = planned(facts).weights
    assert weights is not None
    assert weights.bytes / 2e9 == pytest.approx(billions, rel=1e-3)
