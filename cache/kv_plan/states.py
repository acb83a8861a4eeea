"""Sizes of recurrent states: Mamba 2, gated delta nets, Kimi's delta attention, short convolutions.

Source: sglang 0.5.23, srt/configs/mamba_utils.py (`Mamba2StateShape.create`,
`KimiLinearStateShape.create`, `mamba2_state_dtype`); srt/mem_cache/kv_cache_configurator.py
(`_calculate_mamba_ratio`) and arg_groups/overrides.py (`_MAMBA_EXTRA_BUFFER_ARCHS`) for the slots.
"""

from cache.errors import ModelConfigError
from cache.kv_plan.config import ModelConfig
from cache.kv_plan.layers import StateLayers

# SGLANG_MAMBA_CONV_DTYPE is bfloat16 unless it is set.
_CONV_SIZE = 2
_STATE_SIZES = {"float32": 4, "bfloat16": 2, "float16": 2}
# With a radix cache: three slots a request, and two more where states are tracked while the
# scheduler overlaps (the default on CUDA for these).
_SLOTS = 3
_TRACKING_SLOTS = 2
_TRACKED = frozenset(
    {
        "FalconH1ForCausalLM",
        "GraniteMoeHybridForCausalLM",
        "KimiLinearForCausalLM",
        "NemotronHForCausalLM",
        "Qwen3NextForCausalLM",
        "Qwen3_5ForCausalLM",
        "Qwen3_5ForConditionalGeneration",
        "Qwen3_5MoeForCausalLM",
        "Qwen3_5MoeForConditionalGeneration",
    }
)


def mamba_state(
    config: ModelConfig,
    *,
    count: int,
    inner: int,
    groups: int,
    heads: int,
    head_dim: int,
    state_size: int,
    kernel: int,
    ranks: int,
    size: int | None = None,
) -> StateLayers:
    """Mamba 2 and what SGLang keeps in the same shape.

    Args:
        inner: width of the convolved values.
        groups: groups that share keys; one for each rank where they can't be split evenly.
        size: bytes of a state number; by default what `mamba_ssm_dtype` says, else 4.
    """
    if groups % ranks:
        groups = ranks
    conv_dim = inner + 2 * groups * state_size
    return StateLayers(
        count=count,
        conv_elements=_share(config, conv_dim, ranks) * (kernel - 1),
        conv_size=_CONV_SIZE,
        recurrent_elements=_share(config, heads, ranks) * head_dim * state_size,
        recurrent_size=size or _state_size(config),
        slots_per_request=_slots(config),
    )


def kimi_state(
    config: ModelConfig, *, count: int, heads: int, head_dim: int, kernel: int, ranks: int
) -> StateLayers:
    """Kimi's delta attention: one convolution each for query, key and value."""
    width = _share(config, heads * head_dim, ranks)
    return StateLayers(
        count=count,
        conv_elements=3 * width * (kernel - 1),
        conv_size=_CONV_SIZE,
        recurrent_elements=_share(config, heads, ranks) * head_dim * head_dim,
        recurrent_size=4,
        slots_per_request=_slots(config),
    )


def _slots(config: ModelConfig) -> int:
    return _SLOTS + (_TRACKING_SLOTS if config.architecture in _TRACKED else 0)


def _state_size(config: ModelConfig) -> int:
    told = config.text.get("mamba_ssm_dtype")
    return _STATE_SIZES.get(str(told), 4)


def _share(config: ModelConfig, total: int, ranks: int) -> int:
    if total % ranks:
        reason = f"{total} parts of the recurrent state can't be split over {ranks} GPUs"
        raise ModelConfigError(path=config.path, reason=reason)
    return total // ranks
