"""Which architectures can be planned, and why some can't.

Only what is listed here is planned. Several models keep KV in ways of their own (shared between
layers, compressed, with other heads in each layer), so that "it looks like Llama" is no evidence.

Source: sglang 0.5.23, srt/models (which architectures there are), srt/configs/model_config.py
`is_hybrid_swa_model`, srt/configs/hybrid_arch.py, srt/model_executor/pool_configurator.py.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType

from cache.errors import ModelConfigError, ModelUnsupportedError
from cache.kv_plan.config import ModelConfig
from cache.kv_plan.layers import HeadLayers, KvLayout
from cache.kv_plan.layouts import (
    falcon_h1,
    gated_delta,
    granite_hybrid,
    kimi_linear,
    latent,
    lfm2,
    nemotron_h,
    plain,
    sliding_pool,
)


def kv_layout(config: ModelConfig, *, ranks: int = 1) -> KvLayout:
    """What the model keeps for each token and each request, on each of `ranks` GPUs.

    Raises:
        ModelUnsupportedError: an architecture that isn't understood.
        ModelConfigError: a field that is needed is missing, or so many GPUs can't share the model.
    """
    name = config.architecture
    if name in _REASONS:
        raise ModelUnsupportedError(architecture=name, reason=_REASONS[name])
    if name not in _LAYOUTS:
        reason = "this architecture isn't one of those that Foreword can plan"
        raise ModelUnsupportedError(architecture=name, reason=reason)
    if config.has("index_topk"):
        raise ModelUnsupportedError(architecture=name, reason=_SPARSE)
    _require_even(config, ranks)
    layout = _LAYOUTS[name](config, ranks)
    _require_shared(config, layout, ranks)
    return layout


def _require_even(config: ModelConfig, ranks: int) -> None:
    heads = config.integer("num_attention_heads", 0)
    if heads % ranks:
        reason = f"its {heads} attention heads can't be shared evenly by {ranks} GPUs"
        raise ModelConfigError(path=config.path, reason=reason)


def _require_shared(config: ModelConfig, layout: KvLayout, ranks: int) -> None:
    """As each of SGLang's models asserts (srt/models, `total_num_kv_heads`)."""
    full = layout.full
    if full.count < 1 or full.elements(ranks=ranks) < 1:
        reason = "by its config.json none of its layers keeps KV"
        raise ModelConfigError(path=config.path, reason=reason)
    if layout.state is not None and layout.state.count < 0:
        reason = "its config.json names more attention layers than there are layers"
        raise ModelConfigError(path=config.path, reason=reason)
    if isinstance(full, HeadLayers) and full.kv_heads % ranks and ranks % full.kv_heads:
        reason = f"its {full.kv_heads} KV heads can't be shared evenly by {ranks} GPUs"
        raise ModelConfigError(path=config.path, reason=reason)


def architectures() -> tuple[str, ...]:
    """Everything that can be planned, sorted."""
    return tuple(sorted(_LAYOUTS))


_Layout = Callable[[ModelConfig, int], KvLayout]
_PLAIN = (
    "ArceeForCausalLM",
    "BaichuanForCausalLM",
    "Cohere2ForCausalLM",
    "CohereForCausalLM",
    "Ernie4_5_ForCausalLM",
    "Ernie4_5_MoeForCausalLM",
    "Exaone4ForCausalLM",
    "GPTBigCodeForCausalLM",
    "Gemma2ForCausalLM",
    "Gemma3ForCausalLM",
    "Gemma3ForConditionalGeneration",
    "GemmaForCausalLM",
    "Glm4ForCausalLM",
    "Glm4MoeForCausalLM",
    "GraniteForCausalLM",
    "GraniteMoeForCausalLM",
    "InternLM2ForCausalLM",
    "LlamaForCausalLM",
    "MiMoForCausalLM",
    "MiniMaxM2ForCausalLM",
    "Mistral3ForConditionalGeneration",
    "MistralForCausalLM",
    "MixtralForCausalLM",
    "Olmo2ForCausalLM",
    "OlmoForCausalLM",
    "OlmoeForCausalLM",
    "Phi3ForCausalLM",
    "PhiForCausalLM",
    "PhiMoEForCausalLM",
    "Qwen2ForCausalLM",
    "Qwen2MoeForCausalLM",
    "Qwen2VLForConditionalGeneration",
    "Qwen2_5_VLForConditionalGeneration",
    "Qwen3ForCausalLM",
    "Qwen3MoeForCausalLM",
    "Qwen3VLForConditionalGeneration",
    "Qwen3VLMoeForConditionalGeneration",
    "SolarForCausalLM",
    "StableLmForCausalLM",
    "Starcoder2ForCausalLM",
)
_LAYOUTS: Mapping[str, _Layout] = MappingProxyType(
    dict.fromkeys(_PLAIN, plain)
    | {
        "DeepseekV2ForCausalLM": latent,
        "DeepseekV3ForCausalLM": latent,
        "FalconH1ForCausalLM": falcon_h1,
        "Glm4MoeLiteForCausalLM": latent,
        "GptOssForCausalLM": sliding_pool,
        "GraniteMoeHybridForCausalLM": granite_hybrid,
        "KimiLinearForCausalLM": kimi_linear,
        "KimiVLForConditionalGeneration": latent,
        "Lfm2ForCausalLM": lfm2,
        "Lfm2MoeForCausalLM": lfm2,
        "MiniCPM3ForCausalLM": latent,
        "NemotronHForCausalLM": nemotron_h,
        "Qwen3NextForCausalLM": gated_delta,
        "Qwen3_5ForCausalLM": gated_delta,
        "Qwen3_5ForConditionalGeneration": gated_delta,
        "Qwen3_5MoeForCausalLM": gated_delta,
        "Qwen3_5MoeForConditionalGeneration": gated_delta,
    }
)

_SPARSE = (
    "its sparse attention keeps an index beside the KV, whose size depends on the kernels that the "
    "engine chooses at its start"
)
_UNEQUAL = "its layers have different heads, and some share their KV"
_UNSERVED = "SGLang 0.5.23 has no model of that name"
_REASONS: Mapping[str, str] = MappingProxyType(
    {
        "BambaForCausalLM": _UNSERVED,
        "DeepseekV32ForCausalLM": _SPARSE,
        "DeepseekV4ForCausalLM": "its layers compress KV by different factors",
        "Gemma3nForCausalLM": "some of its layers share the KV of others",
        "Gemma3nForConditionalGeneration": "some of its layers share the KV of others",
        "Gemma4ForCausalLM": _UNEQUAL,
        "Gemma4ForConditionalGeneration": _UNEQUAL,
        "GlmMoeDsaForCausalLM": _SPARSE,
        "JambaForCausalLM": _UNSERVED,
        "Llama4ForConditionalGeneration": "its layers attend to chunks, in a pool of their own",
        "Zamba2ForCausalLM": _UNSERVED,
        "ZambaForCausalLM": _UNSERVED,
    }
)
