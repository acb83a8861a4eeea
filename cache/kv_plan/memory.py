"""How much of a GPU SGLang gives to weights and KV together, and how much of that is left for KV.

What the engine does at its start: it notes the free memory, loads the weights, and takes for KV
what is free then, less (1 - mem_fraction_static) of what was free before.

Source: sglang 0.5.23, srt/arg_groups/memory_hook.py (`handle_gpu_memory_settings`,
`reserve_for_graph_mb`, `adjust_mem_fraction_for_vlm`) and srt/mem_cache/kv_cache_configurator.py
(`_profile_available_bytes`), for CUDA with the defaults: one data-parallel rank, no speculative
decoding, prefill and decode graphs.
"""

from collections.abc import Mapping
from dataclasses import replace

from cache.kv_plan.config import ModelConfig

_MIB = 2**20
_MULTIMODAL_CACHE_MIB = 100  # SGLANG_VLM_CACHE_SIZE_MB
_MULTIMODAL = frozenset(
    {
        "Gemma3ForConditionalGeneration",
        "KimiVLForConditionalGeneration",
        "Mistral3ForConditionalGeneration",
        "Qwen2VLForConditionalGeneration",
        "Qwen2_5_VLForConditionalGeneration",
        "Qwen3VLForConditionalGeneration",
        "Qwen3VLMoeForConditionalGeneration",
        "Qwen3_5ForConditionalGeneration",
        "Qwen3_5MoeForConditionalGeneration",
    }
)
_MULTIMODAL_WITH_PREFILL_GRAPHS = frozenset(
    {"Qwen3_5ForConditionalGeneration", "Qwen3_5MoeForConditionalGeneration"}
)
_NO_PREFILL_GRAPHS = frozenset({"KimiLinearForCausalLM"})


def default_mem_fraction(
    config: ModelConfig, *, total_mib: float, ranks: int = 1, latent: bool = False
) -> float:
    """The `--mem-fraction-static` that SGLang picks for a GPU of this size; 0 where it can't work.

    Args:
        latent: whether the model has multi-head latent attention.
    """
    chunk, decode_batch = _batch_sizes(total_mib, ranks)
    reserved = 512 + max(chunk, 2048) * 1.5 + ranks / 8 * 1024 + decode_batch * 2
    if _prefill_graphs(config):
        reserved += 1536 if latent else prefill_graph_count(chunk) * 8
    if total_mib > 60 * 1024:
        reserved = max(reserved, 10 * 1024)
    fraction = max(0.0, round((total_mib - reserved) / total_mib, 3))
    return fraction * _vision_factor(config)


def kv_budget_bytes(
    config: ModelConfig, *, free_mib: float, weight_bytes: int, mem_fraction: float
) -> int:
    """Bytes for KV and states on one GPU; below 0 where the weights alone don't fit.

    Args:
        free_mib: free memory before the weights are loaded.
        weight_bytes: weights on this GPU.
    """
    reserved_mib = _MULTIMODAL_CACHE_MIB if config.architecture in _MULTIMODAL else 0
    return int((free_mib * mem_fraction - reserved_mib) * _MIB) - weight_bytes


def _batch_sizes(total_mib: float, ranks: int) -> tuple[int, int]:
    """Chunked prefill size and the largest decode batch with a graph."""
    many = ranks >= 4
    if total_mib < 20 * 1024:
        return 2048, 8
    if total_mib < 35 * 1024:
        return 4096, 160 if many else 48
    if total_mib < 60 * 1024:
        return 4096, 160 if many else 32
    if total_mib < 160 * 1024:
        return 8192, 512 if many else 256
    return 16384, 512


def _prefill_graphs(config: ModelConfig) -> bool:
    if config.architecture in _MULTIMODAL:
        return config.architecture in _MULTIMODAL_WITH_PREFILL_GRAPHS
    return config.architecture not in _NO_PREFILL_GRAPHS


def prefill_graph_count(largest: int) -> int:
    """How many prompt sizes up to `largest` get a CUDA graph.

    Source: sglang 0.5.23, srt/arg_groups/cuda_graph_hook.py
    `generate_prefill_cuda_graph_batch_sizes`.
    """
    sizes = [
        *range(4, 33, 4),
        *range(48, 257, 16),
        *range(288, 513, 32),
        *range(576, 1025, 64),
        *range(1280, 4097, 256),
        *range(4608, largest + 1, 512),
    ]
    return sum(size <= largest for size in sizes)


def _vision_factor(config: ModelConfig) -> float:
    """A model with a vision tower leaves more memory free, by the tower's size."""
    told = config.raw.get("vision_config")
    if config.architecture not in _MULTIMODAL or not isinstance(told, Mapping):
        return 1.0
    vision = replace(config, text=told)
    layers = vision.integer("num_hidden_layers", 24)
    hidden = vision.integer("hidden_size", 1024)
    size = layers * hidden**2 / (24 * 1024**2)
    return float(0.95 * max(0.8, min(1.05, 1.0 - 0.1 * (size - 1.0))))
