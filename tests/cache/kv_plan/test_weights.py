"""Bytes of weights from files, an index, or arithmetic."""

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from cache.errors import ModelConfigError
from cache.kv_plan import parse_model_config
from cache.kv_plan.weights import weights_of
from tests import kv_plan_configs as models

LLAMA = parse_model_config(models.LLAMA_31_8B)


def write_safetensors(
    file: Path, tensors: Mapping[str, tuple[str, int]], *, header: bytes | None = None
) -> None:
    """Tensors by name: their type and bytes. The numbers themselves are nobody's business."""
    table: dict[str, object] = {"__metadata__": {"format": "pt"}}
    start = 0
    for name, (dtype, size) in tensors.items():
        table[name] = {"dtype": dtype, "shape": [size], "data_offsets": [start, start + size]}
        start += size
    text = header if header is not None else json.dumps(table).encode()
    file.write_bytes(len(text).to_bytes(8, "little") + text)


def test_files_are_read_tensor_by_tensor(tmp_path: Path) -> None:
    write_safetensors(tmp_path / "a.safetensors", {"model.layers.0.w": ("BF16", 600)})
    write_safetensors(tmp_path / "b.safetensors", {"lm_head": ("BF16", 400)})
    weights = weights_of(LLAMA, folder=tmp_path, dtype="bfloat16")
    assert weights is not None
    assert (weights.bytes, weights.exact) == (1000, True)
    assert "2 safetensors files" in weights.how


def test_numbers_take_the_size_that_the_engine_loads_them_in(tmp_path: Path) -> None:
    tensors = {"w": ("F32", 400), "count": ("I64", 8)}
    write_safetensors(tmp_path / "model.safetensors", tensors)
    half = weights_of(LLAMA, folder=tmp_path, dtype="float16")
    assert half is not None
    assert half.bytes == 208


def test_quantised_numbers_stay_as_they_are(tmp_path: Path) -> None:
    config = parse_model_config(models.QWEN3_14B_AWQ)
    write_safetensors(tmp_path / "m.safetensors", {"q": ("I32", 400), "s": ("F16", 100)})
    weights = weights_of(config, folder=tmp_path, dtype="float32")
    assert weights is not None
    assert weights.bytes == 500


def test_layers_for_further_tokens_are_not_loaded(tmp_path: Path) -> None:
    tensors = {"model.layers.31.w": ("BF16", 100), "model.layers.32.w": ("BF16", 900)}
    write_safetensors(tmp_path / "m.safetensors", tensors)
    weights = weights_of(LLAMA, folder=tmp_path, dtype="bfloat16")
    assert weights is not None
    assert weights.bytes == 100
    assert "900 B" in weights.how


def test_an_index_tells_where_files_are_missing(tmp_path: Path) -> None:
    index = {"metadata": {"total_size": 16_060_522_496}, "weight_map": {"w": "b.safetensors"}}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index))
    write_safetensors(tmp_path / "a.safetensors", {"w": ("BF16", 600)})
    weights = weights_of(LLAMA, folder=tmp_path, dtype="bfloat16")
    assert weights is not None
    assert weights.bytes == 16_060_522_496
    as_float32 = weights_of(LLAMA, folder=tmp_path, dtype="float32")
    assert as_float32 is not None
    assert as_float32.bytes == 2 * 16_060_522_496


@pytest.mark.parametrize(
    "header", [b"", b"not json", b'{"w": {}}', b'{"w": 3}', b'{"w": {"dtype": "F32"}}', b"[]"]
)
def test_damaged_files_are_named(tmp_path: Path, header: bytes) -> None:
    write_safetensors(tmp_path / "bad.safetensors", {}, header=header)
    with pytest.raises(ModelConfigError, match=r"bad\.safetensors"):
        weights_of(LLAMA, folder=tmp_path, dtype="bfloat16")


@pytest.mark.parametrize(
    "text", ["{", "{}", '{"metadata": {}}', '{"metadata": {"total_size": "x"}}']
)
def test_a_damaged_index_is_named(tmp_path: Path, text: str) -> None:
    (tmp_path / "model.safetensors.index.json").write_text(text)
    with pytest.raises(ModelConfigError, match="total_size"):
        weights_of(LLAMA, folder=tmp_path, dtype="bfloat16")


@pytest.mark.parametrize(
    "facts",
    [
        models.DEEPSEEK_V3,
        models.GPT_OSS_120B,
        models.NEMOTRON_H_8B,
        {**models.LLAMA_31_8B, "quantization_config": {"quant_method": "compressed-tensors"}},
        {**models.LLAMA_31_8B, "quantization_config": {"quant_method": "gptq"}},
    ],
)
def test_what_cannot_be_counted_is_not_known(facts: Mapping[str, object], tmp_path: Path) -> None:
    assert weights_of(parse_model_config(facts), folder=tmp_path, dtype="bfloat16") is None


def test_fp8_halves_the_linear_layers() -> None:
    fp8 = {"quant_method": "fp8", "weight_block_size": [128, 128]}
    config = parse_model_config({**models.QWEN3_32B, "quantization_config": fp8})
    weights = weights_of(config, folder=None, dtype="bfloat16")
    assert weights is not None
    words = 2 * 151936 * 5120
    linear = 32_757_514_240 - words
    assert weights.bytes == pytest.approx(linear + 2 * words, rel=1e-3)
