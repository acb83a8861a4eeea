"""Text and JSON of plans: complete for every model, honest about what isn't known."""

import json
from collections.abc import Mapping
from contextlib import suppress
from types import MappingProxyType

import pytest

from cache.errors import CacheError
from cache.kv_plan import (
    KvPlan,
    PlanOptions,
    find_gpu,
    make_plan,
    parse_model_config,
    render_text,
    to_json,
)
from cache.kv_plan.derivation import derivation, notes
from cache.tiers import RedisTier, TierSettings
from tests import kv_plan_configs as models

ALL = {
    name: facts
    for name, facts in vars(models).items()
    if isinstance(facts, MappingProxyType) and name not in ("JAMBA", "DEEPSEEK_V32")
}
TIERS = TierSettings(ram_gb=4, ssd_gb=8, redis=RedisTier(host="kv", port=6379))


def planned(facts: Mapping[str, object], **options: object) -> KvPlan:
    return make_plan(parse_model_config(facts), PlanOptions(**options))


@pytest.mark.parametrize("name", sorted(ALL))
@pytest.mark.parametrize("weight_bytes", [None, 20 * 2**30, 500 * 2**30])
def test_every_figure_has_its_arithmetic(name: str, weight_bytes: int | None) -> None:
    plan = planned(
        ALL[name],
        gpu=find_gpu("H100"),
        tiers=TIERS,
        weight_bytes=weight_bytes,
        corpus_tokens=5_000,
    )
    assert all(line.value and line.how for line in derivation(plan))
    text = render_text(plan)
    body = json.loads(json.dumps(to_json(plan), allow_nan=False))
    for line in derivation(plan):
        assert f"{line.value}  {line.how}" in text
    assert len(body["derivation"]) == len(derivation(plan))
    assert (body["pool"] is None) == (plan.weights is None)


def test_states_and_a_second_pool_are_shown() -> None:
    hybrid = render_text(planned(models.QWEN3_NEXT_80B, gpu=find_gpu("H200"), weight_bytes=2**36))
    assert "state per request  " in hybrid
    assert "5 slots a running request" in hybrid
    sliding = render_text(planned(models.GPT_OSS_120B, gpu=find_gpu("H100"), weight_bytes=2**35))
    assert "in a pool of their own for windows of 128" in sliding
    assert "0.8 of the full layers' tokens" in sliding


def test_several_gpus_are_said_wherever_it_matters() -> None:
    text = render_text(planned(models.LLAMA_31_70B, gpu=find_gpu("H100"), ranks=4, tiers=TIERS))
    assert "LlamaForCausalLM: grouped-query attention, bfloat16, 4 GPUs" in text
    assert "80 layers x 2 KV heads" in text
    assert "on each GPU" in text
    assert "116 B of encryption" in text


def test_a_tier_without_a_bound_says_so() -> None:
    assert "no bound  " in render_text(planned(models.QWEN3_8B, tiers=TIERS))


def test_notes_tell_what_is_missing() -> None:
    assert "--gpu" in notes(planned(models.QWEN3_8B))[0]
    assert "--weights-gib" in notes(planned(models.DEEPSEEK_V3))[0]
    assert "look back 1,024 tokens only" in notes(planned(models.GEMMA3_27B))[1]


def test_a_pool_smaller_than_the_window_is_a_problem() -> None:
    plan = planned(models.QWEN3_14B, pool_tokens=10_000)
    (problem,) = to_json(plan)["problems"]
    assert "a prompt of more than 10,000 tokens is refused" in problem


@pytest.mark.parametrize("name", sorted(ALL))
def test_whatever_a_field_holds_the_plan_is_whole_or_an_error_of_ours(name: str) -> None:
    strange = (0, -1, 1, 10**12, 0.5, float("nan"), float("inf"), "x", None, True, [], [[1]], {})
    options = {"gpu": find_gpu("H100"), "tiers": TIERS, "weight_bytes": 2**30, "ranks": 2}
    for key in (*ALL[name], "quantization_config", "rope_scaling", "sliding_window"):
        for value in strange:
            with suppress(CacheError):
                plan = planned({**ALL[name], key: value}, **options)
                json.dumps(to_json(plan), allow_nan=False)
                render_text(plan)
