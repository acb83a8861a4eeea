"""Bytes of one number, in the weights and in the KV cache.

Source: sglang 0.5.23, srt/configs/model_config.py `_get_and_verify_dtype` and srt/mem_cache/
kv_cache_dtype.py `configure_kv_cache_dtype`.
"""

from cache.errors import ModelConfigError
from cache.kv_plan.config import ModelConfig

_SIZES = {"float32": 4, "float16": 2, "bfloat16": 2, "fp8_e4m3": 1, "fp8_e5m2": 1}
_SHORT = {"half": "float16", "fp16": "float16", "bf16": "bfloat16", "float": "float32"}
_SHORT |= {"fp32": "float32", "fp8": "fp8_e4m3"}


def number_bytes(dtype: str) -> int:
    """Bytes of one number of a type that `model_dtype` or `kv_dtype` gave."""
    return _SIZES[dtype]


def model_dtype(config: ModelConfig, asked: str = "auto") -> str:
    """The type that the engine computes in; `--dtype auto` halves float32.

    Raises:
        ModelConfigError: a type that the engine doesn't know.
    """
    if asked != "auto":
        return _known(config, asked, among=("float32", "float16", "bfloat16"))
    dtype = stored_dtype(config)
    if dtype != "float32":
        return dtype
    gemma = str(config.text.get("model_type", "")).startswith("gemma")
    return "bfloat16" if gemma else "float16"


def stored_dtype(config: ModelConfig) -> str:
    """The type that a checkpoint says it is stored in.

    Raises:
        ModelConfigError: a type that isn't planned.
    """
    told = config.text.get("dtype") or config.text.get("torch_dtype")
    told = told or config.raw.get("dtype") or config.raw.get("torch_dtype") or "float32"
    return _known(config, str(told), among=("float32", "float16", "bfloat16"))


def kv_dtype(config: ModelConfig, *, asked: str = "auto", dtype: str) -> str:
    """The type of keys and values: the model's own, unless it or the operator says fp8.

    Raises:
        ModelConfigError: a type that isn't planned.
    """
    if asked != "auto":
        return _known(config, asked, among=("bfloat16", "fp8_e4m3", "fp8_e5m2"))
    told = config.part("quantization_config").get("kv_cache_quant_algo")
    return "fp8_e4m3" if str(told).upper() == "FP8" else dtype


def _known(config: ModelConfig, name: str, *, among: tuple[str, ...]) -> str:
    dtype = _SHORT.get(name.removeprefix("torch."), name.removeprefix("torch."))
    if dtype not in among:
        reason = f"the number type {name!r} isn't one of {', '.join(among)}"
        raise ModelConfigError(path=config.path, reason=reason)
    return dtype
