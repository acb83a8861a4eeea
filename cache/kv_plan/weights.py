"""Bytes of a model's weights: read from its files, else from their index, else counted.

Files are exact: each safetensors file begins with a table of its tensors. Counting is for a
config.json alone, and only where an architecture's matrices are known.

Source: the safetensors format (8 bytes of length, then JSON); the shapes of Llama-like models as in
sglang 0.5.23, srt/models/llama.py, qwen3.py, qwen3_moe.py, mixtral.py, gemma3_causal.py.
"""

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from cache.errors import ModelConfigError
from cache.kv_plan.config import ModelConfig
from cache.kv_plan.dtypes import number_bytes, stored_dtype

_LARGEST_HEADER_BYTES = 100_000_000
_FLOAT_BYTES = {"F64": 8, "F32": 4, "F16": 2, "BF16": 2}
_LARGEST_BYTES = 2**60
_LARGEST_GROUP = 2**20
_LAYER = re.compile(r"\blayers\.(\d{1,6})\.")
# Names of layers that only predict further tokens; SGLang's models pass over them.
_EXTRA = ("mtp.", "model.mtp_")
_DAMAGED = (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError)
_INDEX = "model.safetensors.index.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Weights:
    """All weights together, and how that is known; `note` says why it is too much or too little."""

    bytes: int
    how: str
    exact: bool
    note: str | None = None


def weights_of(config: ModelConfig, *, folder: Path | None, dtype: str) -> Weights | None:
    """The weights by the best evidence that there is; None where there is none.

    Raises:
        ModelConfigError: a weight file or its index is damaged.
    """
    found = None
    if folder is not None:
        found = _from_files(config, folder, dtype) or _from_index(config, folder, dtype)
    return found or _counted(config, dtype=dtype)


def _from_files(config: ModelConfig, folder: Path, dtype: str) -> Weights | None:
    """From the table at the start of each file, without layers that the engine doesn't load."""
    files = _loaded_files(folder)
    if not files:
        return None
    layers = config.integer("num_hidden_layers", 0)
    total = skipped = 0
    converted = None if _quantised(config) else number_bytes(dtype)
    for name, size in (tensor for file in files for tensor in _tensors(file, converted)):
        if _is_extra(name, layers):
            skipped += size
        else:
            total += size
    how = f"the tensors of {len(files)} safetensors file{'s' if len(files) > 1 else ''}"
    if converted:
        how += f", as {dtype}"
    if skipped:
        how += f", without {skipped:,} B of layers that only predict further tokens"
    return Weights(bytes=total, how=how, exact=True)


def _is_extra(name: str, layers: int) -> bool:
    """Whether a tensor only predicts further tokens, which may be called a layer past the last.

    Args:
        layers: 0 where it isn't known.
    """
    match = _LAYER.search(name)
    past = match is not None and 0 < layers <= int(match[1])
    return past or name.startswith(_EXTRA)


def _tensors(file: Path, converted: int | None) -> Iterable[tuple[str, int]]:
    """Names and bytes, floating numbers as `converted` bytes each: the engine loads them into its
    own type."""
    try:
        with file.open("rb") as stream:
            length = int.from_bytes(stream.read(8), "little")
            if length > _LARGEST_HEADER_BYTES:
                raise ValueError("its table of tensors is too long")
            table = json.loads(stream.read(length))
        for name, tensor in table.items():
            if name != "__metadata__":
                start, stop = tensor["data_offsets"]
                if not 0 <= start <= stop <= _LARGEST_BYTES:
                    raise ValueError(f"{name} lies nowhere")
                size = _FLOAT_BYTES.get(tensor["dtype"]) if converted else None
                factor = converted / size if converted and size else 1
                yield name, int((stop - start) * factor)
    except (OSError, *_DAMAGED) as error:
        reason = f"it isn't a safetensors file ({error})"
        raise ModelConfigError(path=str(file), reason=reason) from error


def _loaded_files(folder: Path) -> list[Path]:
    """Those that the engine loads: what the index names, else all without Mistral's second copy;
    none where the index names one that isn't there."""
    files = sorted(folder.glob("*.safetensors"))
    named = _weight_map(folder / _INDEX)
    if named:
        wanted = set(named.values())
        there = {file.name for file in files}
        return [file for file in files if file.name in wanted] if wanted <= there else []
    others = [file for file in files if not file.name.startswith("consolidated")]
    return others or files


def _weight_map(index: Path) -> Mapping[str, str]:
    """The file of each tensor; empty where the index can't tell."""
    try:
        named = json.loads(index.read_bytes())["weight_map"]
    except (OSError, *_DAMAGED):
        return {}
    words = isinstance(named, dict) and all(isinstance(file, str) for file in named.values())
    return named if words else {}


def _from_index(config: ModelConfig, folder: Path, dtype: str) -> Weights | None:
    for name in (_INDEX, "pytorch_model.bin.index.json"):
        index = folder / name
        if index.is_file():
            total = _total_size(index)
            how = f"total_size in {name}"
            if not _quantised(config):
                stored = number_bytes(stored_dtype(config))
                total, how = total * number_bytes(dtype) // stored, f"{how}, as {dtype}"
            layers = config.integer("num_hidden_layers", 0)
            extra = any(_is_extra(tensor, layers) for tensor in _weight_map(index))
            note = _TOO_MUCH if extra else None
            return Weights(bytes=total, how=how, exact=not extra, note=note)
    return None


_TOO_MUCH = (
    "the weights are too high: the index counts layers that only predict further tokens, which "
    "aren't loaded; with the weight files, or --weights-gib, they are exact"
)


def _total_size(index: Path) -> int:
    try:
        total = int(json.loads(index.read_bytes())["metadata"]["total_size"])
        if not 0 < total <= _LARGEST_BYTES:
            raise ValueError("it can't be so many bytes")
    except (OSError, *_DAMAGED) as error:
        reason = f"it has no metadata.total_size that can be used ({error})"
        raise ModelConfigError(path=str(index), reason=reason) from error
    return total


def _quantised(config: ModelConfig) -> bool:
    return bool(config.part("quantization_config"))


_GATED = frozenset(
    {
        "Gemma2ForCausalLM",
        "Gemma3ForCausalLM",
        "GemmaForCausalLM",
        "InternLM2ForCausalLM",
        "LlamaForCausalLM",
        "MistralForCausalLM",
        "MixtralForCausalLM",
        "Olmo2ForCausalLM",
        "OlmoForCausalLM",
        "Phi3ForCausalLM",
        "Qwen2ForCausalLM",
        "Qwen3ForCausalLM",
        "Qwen3MoeForCausalLM",
        "SolarForCausalLM",
    }
)


def _counted(config: ModelConfig, *, dtype: str) -> Weights | None:
    """Matrices only: norms and biases are less than 0.1 % of these models."""
    rate = _linear_bytes(config, dtype)
    if config.architecture not in _GATED or rate is None:
        return None
    hidden, layers = config.integer("hidden_size"), config.integer("num_hidden_layers")
    linear = layers * (_attention_numbers(config, hidden) + _mlp_numbers(config, hidden))
    tied = config.raw.get("tie_word_embeddings", config.text.get("tie_word_embeddings"))
    if tied is None:
        tied = str(config.text.get("model_type", "")).startswith("gemma")
    words = config.integer("vocab_size") * hidden * (1 if tied else 2)
    size = round(linear * rate + words * number_bytes(dtype))
    how = (
        f"counted: {linear:,} numbers in {layers} layers x {rate:.4g} B + {words:,} in the "
        f"vocabulary's matrices x {number_bytes(dtype)} B; norms and biases left out"
    )
    return Weights(bytes=size, how=how, exact=False)


def _attention_numbers(config: ModelConfig, hidden: int) -> int:
    heads = config.integer("num_attention_heads")
    kv_heads = config.integer("num_key_value_heads", heads)
    head_dim = config.integer("head_dim", hidden // max(1, heads))
    return 2 * hidden * head_dim * (heads + kv_heads)


def _mlp_numbers(config: ModelConfig, hidden: int) -> int:
    experts = config.integer("num_local_experts", 0) or config.integer("num_experts", 0)
    if not experts:
        return 3 * hidden * config.integer("intermediate_size")
    width = config.integer("moe_intermediate_size", config.integer("intermediate_size"))
    return experts * 3 * hidden * width + experts * hidden


def _linear_bytes(config: ModelConfig, dtype: str) -> float | None:
    """Bytes of one number of a linear layer; None for a quantisation that isn't counted."""
    told = config.part("quantization_config")
    method = told.get("quant_method")
    if method is None:
        return number_bytes(dtype)
    if method == "fp8":
        return 1 + (4 / 128**2 if told.get("weight_block_size") else 0)
    bits, group = told.get("bits"), told.get("group_size")
    if method not in ("awq", "gptq") or not isinstance(bits, int) or not isinstance(group, int):
        return None
    if not 0 < bits <= 16 or group > _LARGEST_GROUP:
        return None
    # Each group of numbers has a 16-bit scale and a zero point as wide as a number.
    return bits / 8 + ((2 + bits / 8) / group if group > 0 else 0)
