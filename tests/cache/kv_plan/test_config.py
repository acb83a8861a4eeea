"""Reading config.json, and saying what is missing from it."""

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from cache.errors import ModelConfigError, ModelUnsupportedError
from cache.kv_plan import (
    AttentionKind,
    HeadLayers,
    PlanOptions,
    architectures,
    find_gpu,
    kv_layout,
    make_plan,
    parse_model_config,
    read_model_config,
)
from tests import kv_plan_configs as models


def without(facts: Mapping[str, object], key: str) -> dict[str, object]:
    return {name: value for name, value in facts.items() if name != key}


@pytest.mark.parametrize(
    ("facts", "kind"),
    [
        (models.LLAMA_31_8B, AttentionKind.GQA),
        (models.STARCODER, AttentionKind.MQA),
        (models.DEEPSEEK_V3, AttentionKind.MLA),
        (without(models.LLAMA_31_8B, "num_key_value_heads"), AttentionKind.MHA),
    ],
)
def test_kinds_of_attention(facts: Mapping[str, object], kind: AttentionKind) -> None:
    assert kv_layout(parse_model_config(facts)).full.kind is kind


@pytest.mark.parametrize(
    ("facts", "masked", "window"),
    [
        (models.GEMMA2_9B, 21, 4096),
        (models.GEMMA3_27B, 52, 1024),
        (models.MISTRAL_7B, 32, 4096),
        ({**models.MISTRAL_7B, "layer_types": ["sliding_attention"] * 8}, 8, 4096),
        ({**models.MISTRAL_7B, "use_sliding_window": False}, 0, None),
        ({**models.MISTRAL_7B, "sliding_window": 32768}, 0, None),
        (models.MIXTRAL_8X7B, 0, None),
    ],
)
def test_layers_that_only_mask_keep_all_of_their_kv(
    facts: Mapping[str, object], masked: int, window: int | None
) -> None:
    layout = kv_layout(parse_model_config(facts))
    assert (layout.masked_layers, layout.window_tokens) == (masked, window)
    assert layout.sliding is None


def test_gpt_oss_has_a_second_pool() -> None:
    layout = kv_layout(parse_model_config(models.GPT_OSS_120B))
    assert layout.sliding is not None
    assert (layout.full.count, layout.sliding.count, layout.window_tokens) == (18, 18, 128)


@pytest.mark.parametrize(
    ("facts", "reason"),
    [
        (models.JAMBA, "SGLang 0.5.23 has no model"),
        (models.DEEPSEEK_V32, "sparse attention"),
        (
            {**models.DEEPSEEK_V3, "index_topk": 2048},
            "sparse attention",
        ),
        ({"architectures": ["SomethingNewForCausalLM"]}, "isn't one of those"),
    ],
)
def test_what_is_not_understood_is_refused(facts: Mapping[str, object], reason: str) -> None:
    with pytest.raises(ModelUnsupportedError, match=reason) as caught:
        kv_layout(parse_model_config(facts))
    assert caught.value.architecture in str(caught.value)


@pytest.mark.parametrize(
    ("facts", "key"),
    [
        (models.LLAMA_31_8B, "num_hidden_layers"),
        (models.LLAMA_31_8B, "num_attention_heads"),
        (models.LLAMA_31_8B, "hidden_size"),
        (models.DEEPSEEK_V3, "kv_lora_rank"),
        (models.GPT_OSS_120B, "layer_types"),
        (models.QWEN3_NEXT_80B, "linear_num_value_heads"),
        (models.NEMOTRON_H_8B, "hybrid_override_pattern"),
        (models.KIMI_LINEAR_48B, "linear_attn_config"),
        (models.FALCON_H1_7B, "mamba_d_state"),
    ],
)
def test_a_missing_field_is_named(facts: Mapping[str, object], key: str) -> None:
    with pytest.raises(ModelConfigError, match=key):
        kv_layout(parse_model_config(without(facts, key)))


@pytest.mark.parametrize("value", ["32", -1, 3.5, True, [32]])
def test_a_field_of_another_kind_is_named(value: object) -> None:
    facts = {**models.LLAMA_31_8B, "num_hidden_layers": value}
    with pytest.raises(ModelConfigError, match="num_hidden_layers"):
        kv_layout(parse_model_config(facts))


def test_a_config_without_an_architecture_says_so() -> None:
    with pytest.raises(ModelConfigError, match="architectures"):
        kv_layout(parse_model_config({"num_hidden_layers": 2}))


@pytest.mark.parametrize(
    ("facts", "tokens"),
    [
        (models.LLAMA_31_8B, 131_072),
        (models.QWEN3_14B, 40_960),
        ({**models.QWEN3_14B, "rope_scaling": {"factor": 4.0, "rope_type": "yarn"}}, 163_840),
        (
            {
                **models.QWEN3_14B,
                "rope_scaling": {"factor": 4.0, "original_max_position_embeddings": 32768},
            },
            40_960,
        ),
        (models.GEMMA3_27B, 131_072),  # its factor of 8 is not seen by the engine
        (models.KIMI_LINEAR_48B, 1_048_576),
        (models.STARCODER, 8_192),
        ({"architectures": ["LlamaForCausalLM"]}, 2_048),
    ],
)
def test_context_window(facts: Mapping[str, object], tokens: int) -> None:
    assert parse_model_config(facts).context_tokens == tokens


@pytest.mark.parametrize(
    ("changes", "asked", "dtype", "kept_as"),
    [
        ({}, "auto", "bfloat16", "bfloat16"),
        ({"torch_dtype": "float32"}, "auto", "float16", "float16"),
        ({"torch_dtype": None}, "auto", "float16", "float16"),
        ({"torch_dtype": None, "dtype": "float16"}, "auto", "float16", "float16"),
        ({"model_type": "gemma2", "torch_dtype": "float32"}, "auto", "bfloat16", "bfloat16"),
        ({}, "fp8", "bfloat16", "fp8_e4m3"),
        ({"torch_dtype": "torch.float16"}, "bf16", "float16", "bfloat16"),
        (
            {"quantization_config": {"quant_method": "modelopt", "kv_cache_quant_algo": "FP8"}},
            "auto",
            "bfloat16",
            "fp8_e4m3",
        ),
    ],
)
def test_types_are_those_that_the_engine_picks(
    changes: Mapping[str, object], asked: str, dtype: str, kept_as: str
) -> None:
    config = parse_model_config({**models.LLAMA_31_8B, **changes})
    plan = make_plan(config, PlanOptions(kv_dtype=asked))
    assert (plan.dtype, plan.kv_dtype) == (dtype, kept_as)


@pytest.mark.parametrize("options", [{"dtype": "int4"}, {"kv_dtype": "fp3"}])
def test_types_that_are_not_known_are_refused(options: Mapping[str, str]) -> None:
    with pytest.raises(ModelConfigError, match="number type"):
        make_plan(parse_model_config(models.LLAMA_31_8B), PlanOptions(**options))


def test_files_that_are_no_config(tmp_path: Path) -> None:
    with pytest.raises(ModelConfigError, match="doesn't exist"):
        read_model_config(tmp_path)
    for text, reason in (("{", "isn't JSON"), ("[]", "isn't a JSON object")):
        (tmp_path / "config.json").write_text(text)
        with pytest.raises(ModelConfigError, match=reason):
            read_model_config(tmp_path)


def test_a_folder_or_its_file(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(dict(models.QWEN3_8B)))
    for path in (tmp_path, tmp_path / "config.json"):
        assert read_model_config(path).architecture == "Qwen3ForCausalLM"


def test_every_architecture_is_listed_once_and_sorted() -> None:
    assert list(architectures()) == sorted(set(architectures()))
    assert "JambaForCausalLM" not in architectures()


def test_a_state_that_cannot_be_shared_is_refused() -> None:
    with pytest.raises(ModelConfigError, match="can't be shared evenly by 7 GPUs"):
        kv_layout(parse_model_config(models.QWEN3_NEXT_80B), ranks=7)
    odd = {**models.QWEN3_NEXT_80B, "linear_num_value_heads": 24}
    with pytest.raises(ModelConfigError, match="can't be split over 16 GPUs"):
        kv_layout(parse_model_config(odd), ranks=16)


def test_layers_may_be_listed_instead_of_counted() -> None:
    kinds = (["linear_attention"] * 3 + ["full_attention"]) * 12
    listed = {**without(models.QWEN3_NEXT_80B, "full_attention_interval"), "layer_types": kinds}
    assert kv_layout(parse_model_config(listed)) == kv_layout(
        parse_model_config(models.QWEN3_NEXT_80B)
    )
    nemotron = {
        **without(models.NEMOTRON_H_8B, "hybrid_override_pattern"),
        "layers_block_type": ["mamba"] * 24 + ["mlp"] * 24 + ["attention"] * 4,
    }
    assert kv_layout(parse_model_config(nemotron)) == kv_layout(
        parse_model_config(models.NEMOTRON_H_8B)
    )


def test_a_hybrid_without_mixers_is_plain() -> None:
    facts = {**models.GRANITE_4_TINY, "layer_types": ["attention"] * 40}
    layout = kv_layout(parse_model_config(facts))
    assert layout.full.count == 40
    assert layout.state is None


@pytest.mark.parametrize(
    ("facts", "ranks", "kv_heads"),
    [
        (models.LLAMA_31_8B, 8, 8),
        (models.LLAMA_31_8B, 16, 8),
        ({**models.LLAMA_31_8B, "num_attention_heads": 36, "num_key_value_heads": 6}, 12, 6),
    ],
)
def test_gpus_that_divide_the_kv_heads_or_are_divided_by_them(
    facts: Mapping[str, object], ranks: int, kv_heads: int
) -> None:
    full = kv_layout(parse_model_config(facts), ranks=ranks).full
    assert isinstance(full, HeadLayers)
    assert full.kv_heads == kv_heads


@pytest.mark.parametrize(("kv_heads", "ranks"), [(6, 4), (4, 6), (3, 4)])
def test_kv_heads_that_cannot_be_shared_are_refused(kv_heads: int, ranks: int) -> None:
    """SGLang asserts it in each model."""
    facts = {
        **models.LLAMA_31_8B,
        "num_attention_heads": 12 * kv_heads,
        "num_key_value_heads": kv_heads,
    }
    with pytest.raises(ModelConfigError, match=f"{kv_heads} KV heads can't be shared evenly"):
        kv_layout(parse_model_config(facts), ranks=ranks)


def test_a_latent_is_shared_by_any_number_of_gpus() -> None:
    assert kv_layout(parse_model_config(models.DEEPSEEK_V3), ranks=128).full.count == 61


@pytest.mark.parametrize("value", [0, -1, pytest.param(10**400, id="huge")])
@pytest.mark.parametrize(
    ("facts", "key"),
    [
        (models.LLAMA_31_8B, "num_hidden_layers"),
        (models.LLAMA_31_8B, "num_attention_heads"),
        (models.LLAMA_31_8B, "num_key_value_heads"),
        (models.LLAMA_31_8B, "max_position_embeddings"),
        (models.LLAMA_31_8B, "hidden_size"),
        (models.FALCON_H1_7B, "mamba_n_heads"),
        (models.FALCON_H1_7B, "mamba_d_conv"),
        (models.QWEN3_NEXT_80B, "full_attention_interval"),
        (models.DEEPSEEK_V3, "kv_lora_rank"),
    ],
)
def test_numbers_that_make_no_model_are_named(
    facts: Mapping[str, object], key: str, value: int
) -> None:
    config = parse_model_config({**facts, key: value})
    with pytest.raises(ModelConfigError, match=key):
        make_plan(config, PlanOptions(gpu=find_gpu("H100"), weight_bytes=1))


def test_a_pattern_of_no_layers_is_named() -> None:
    text = {**dict(models.GEMMA3_27B)["text_config"], "sliding_window_pattern": 0}
    with pytest.raises(ModelConfigError, match="sliding_window_pattern"):
        kv_layout(parse_model_config({**models.GEMMA3_27B, "text_config": text}))


@pytest.mark.parametrize(
    "factor",
    [float("nan"), float("inf"), -float("inf"), 0, -2.0, pytest.param(10**400, id="huge")],
)
def test_a_rope_factor_that_cannot_be_is_named(factor: float) -> None:
    facts = {**models.QWEN3_14B, "rope_scaling": {"factor": factor, "rope_type": "yarn"}}
    with pytest.raises(ModelConfigError, match="rope_scaling"):
        make_plan(parse_model_config(facts), PlanOptions())


@pytest.mark.parametrize(
    "facts",
    [
        {**models.NEMOTRON_H_8B, "hybrid_override_pattern": "M-M-"},
        {**models.KIMI_LINEAR_48B, "num_hidden_layers": 20},
        {**models.LLAMA_31_8B, "hidden_size": 8},
        {**models.QWEN3_NEXT_80B, "layer_types": ["full_attention"] * 60},
    ],
)
def test_layers_that_keep_nothing_are_refused(facts: Mapping[str, object]) -> None:
    with pytest.raises(ModelConfigError, match="layers"):
        kv_layout(parse_model_config(facts))


def test_a_config_that_is_nested_too_deeply_is_named(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"a":' * 200_000)
    with pytest.raises(ModelConfigError, match="nested too deeply"):
        read_model_config(tmp_path)


@pytest.mark.parametrize("vision", [{"hidden_size": "wide"}, {"num_hidden_layers": -3}])
def test_a_vision_tower_that_cannot_be_is_named(vision: Mapping[str, object]) -> None:
    config = parse_model_config({**models.GEMMA3_27B, "vision_config": vision})
    with pytest.raises(ModelConfigError, match="must be a whole number"):
        make_plan(config, PlanOptions(gpu=find_gpu("H100"), weight_bytes=1))
