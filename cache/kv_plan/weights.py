"""Bytes of a model's weights: read from its files, else from their index, else counted.

Files are exact: each safetensors file begins with a table of its tensors. Counting is for a
config.json alone, and only where an architecture's matrices are known.

Source: the safetensors format (8 bytes of length, then JSON); the shapes of Llama-like models as in
sglang 0.5.23, srt/models/llama.py, qwen3.py, qwen3_moe.py, mixtral.py, gemma3_causal.py.
"""

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from cache.errors import ModelConfigError
from cache.kv_plan.config import ModelConfig
from cache.kv_plan.dtypes import number_bytes, stored_dtype

_LARGEST_HEADER_BYTES = 100_000_000
_FLOAT_BYTES = {"F64": 8, "F32": 4, "F16": 2, "BF16": 2}
_LAYER = re.compile(r"\blayers\.(\d+)\.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Weights:
    """All weights together, and how that is known."""

    bytes: int
    how: str
    exact: bool


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
    files = sorted(folder.glob("*.safetensors"))
    if not files or _shards_missing(folder, {file.name for file in files}):
        return None
    layers = config.integer("num_hidden_layers", 0)
    total = skipped = 0
    converted = None if _quantised(config) else number_bytes(dtype)
    for name, size in (tensor for file in files for tensor in _tensors(file, converted)):
        if layers and _is_extra(name, layers):
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
    """Whether a tensor belongs to a layer past the last, as multi-token prediction has them."""
    match = _LAYER.search(name)
    return match is not None and int(match[1]) >= layers


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
                size = _FLOAT_BYTES.get(tensor["dtype"]) if converted else None
                factor = converted / size if converted and size else 1
                yield name, int((stop - start) * factor)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        reason = f"it isn't a safetensors file ({error})"
        raise ModelConfigError(path=str(file), reason=reason) from error


def _shards_missing(folder: Path, there: set[str]) -> bool:
    index = folder / "model.safetensors.index.json"
    if not index.is_file():
        return False
    try:
        named = set(json.loads(index.read_bytes())["weight_map"].values())
    except (ValueError, KeyError, TypeError, AttributeError):
        return False  # what an index lacks, the files have
    return not named <= there


def _from_index(config: ModelConfig, folder: Path, dtype: str) -> Weights | None:
    for name in ("model.safetensors.index.json", "pytorch_model.bin.index.json"):
        index = folder / name
        if index.is_file():
            try:
                total = int(json.loads(index.read_bytes())["metadata"]["total_size"])
            except (ValueError, KeyError, TypeError) as error:
                reason = f"it has no metadata.total_size ({error})"
                raise ModelConfigError(path=str(index), reason=reason) from error
            how = f"total_size in {name}"
            if not _quantised(config):
                stored = number_bytes(stored_dtype(config))
                total, how = total * number_bytes(dtype) // stored, f"{how}, as {dtype}"
            return Weights(bytes=total, how=how, exact=True)
    return None


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
    # Each group of numbers has a 16-bit scale and a zero point as wide as a number.
    return bits / 8 + ((2 + bits / 8) / group if group > 0 else 0)
