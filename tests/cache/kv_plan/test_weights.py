"""Bytes of weights from files, an index, or arithmetic."""

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from cache.errors import ModelConfigError
from cache.kv_plan import KvPlan, ModelConfig, PlanOptions, make_plan, parse_model_config
from cache.kv_plan.derivation import notes
from cache.kv_plan.weights import weights_of
from tests import kv_plan_configs as models

HUGE = 10**400
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
    "header",
    [
        b"",
        b"not json",
        b'{"w": {}}',
        b'{"w": 3}',
        b'{"w": {"dtype": "F32"}}',
        b"[]",
        b'{"w": {"dtype": "F32", "data_offsets": [0, Infinity]}}',
        b'{"w": {"dtype": "F32", "data_offsets": [9, 1]}}',
        pytest.param(b'{"w":' * 200_000, id="deep"),
    ],
)
def test_damaged_files_are_named(tmp_path: Path, header: bytes) -> None:
    write_safetensors(tmp_path / "bad.safetensors", {}, header=header)
    with pytest.raises(ModelConfigError, match=r"bad\.safetensors"):
        weights_of(LLAMA, folder=tmp_path, dtype="bfloat16")


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "{}",
        '{"metadata": {}}',
        '{"metadata": {"total_size": "x"}}',
        '{"metadata": {"total_size": -5}}',
        '{"metadata": {"total_size": 0}}',
        '{"metadata": {"total_size": Infinity}}',
        '{"metadata": {"total_size": NaN}}',
        pytest.param('{"metadata":' * 200_000, id="deep"),
    ],
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


def write_index(folder: Path, weight_map: Mapping[str, str], *, total_size: int = 5000) -> None:
    index = {"metadata": {"total_size": total_size}, "weight_map": dict(weight_map)}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))


@pytest.mark.parametrize("indexed", [True, False])
def test_a_second_copy_of_mistrals_weights_is_not_counted(tmp_path: Path, indexed: bool) -> None:
    shards = ("model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors")
    for shard in shards:
        write_safetensors(tmp_path / shard, {f"{shard}.w": ("BF16", 500)})
    write_safetensors(tmp_path / "consolidated.safetensors", {"w": ("BF16", 1000)})
    if indexed:
        write_index(tmp_path, {f"{shard}.w": shard for shard in shards})
    weights = weights_of(LLAMA, folder=tmp_path, dtype="bfloat16")
    assert weights is not None
    assert (weights.bytes, weights.exact) == (1000, True)
    assert "2 safetensors files" in weights.how


def test_only_files_of_the_index_are_counted(tmp_path: Path) -> None:
    write_safetensors(tmp_path / "model.safetensors", {"w": ("BF16", 700)})
    write_safetensors(tmp_path / "adapter.safetensors", {"a": ("BF16", 50)})
    write_index(tmp_path, {"w": "model.safetensors"})
    weights = weights_of(LLAMA, folder=tmp_path, dtype="bfloat16")
    assert weights is not None
    assert weights.bytes == 700


@pytest.mark.parametrize("text", ["{", '{"weight_map": []}', '{"weight_map": {"w": [1]}}', "[1]"])
def test_an_index_that_names_no_files_leaves_them_to_count(tmp_path: Path, text: str) -> None:
    write_safetensors(tmp_path / "model.safetensors", {"w": ("BF16", 700)})
    (tmp_path / "model.safetensors.index.json").write_text(text)
    weights = weights_of(LLAMA, folder=tmp_path, dtype="bfloat16")
    assert weights is not None
    assert weights.bytes == 700


def test_a_consolidated_file_alone_is_counted(tmp_path: Path) -> None:
    write_safetensors(tmp_path / "consolidated.safetensors", {"w": ("BF16", 1000)})
    weights = weights_of(LLAMA, folder=tmp_path, dtype="bfloat16")
    assert weights is not None
    assert weights.bytes == 1000


@pytest.mark.parametrize(
    ("facts", "extra"),
    [
        (models.QWEN3_NEXT_80B, "mtp.layers.0.mlp.gate.weight"),
        (models.QWEN3_NEXT_80B, "mtp.fc.weight"),
        (models.DEEPSEEK_V3, "model.layers.61.eh_proj.weight"),
    ],
)
def test_parts_that_predict_further_tokens_are_left_out_or_said(
    tmp_path: Path, facts: Mapping[str, object], extra: str
) -> None:
    config = parse_model_config(facts)
    file = tmp_path / "model.safetensors"
    write_safetensors(file, {"model.layers.0.w": ("BF16", 100), extra: ("BF16", 900)})
    write_index(tmp_path, {"model.layers.0.w": file.name, extra: file.name})
    from_files = weights_of(config, folder=tmp_path, dtype="bfloat16")
    assert from_files is not None
    assert (from_files.bytes, from_files.exact) == (100, True)
    file.unlink()
    from_index = weights_of(config, folder=tmp_path, dtype="bfloat16")
    assert from_index is not None
    assert (from_index.bytes, from_index.exact) == (5000, False)
    assert any("weights are too high" in note for note in notes(planned(config, tmp_path)))
    write_index(tmp_path, {"model.layers.0.w": file.name})
    plain = weights_of(config, folder=tmp_path, dtype="bfloat16")
    assert plain is not None
    assert plain.exact
    assert not any("too high" in note for note in notes(planned(config, tmp_path)))


def planned(config: ModelConfig, folder: Path) -> KvPlan:
    return make_plan(config, PlanOptions(), folder=folder)


@pytest.mark.parametrize(
    ("bits", "group"), [(-4, 128), (HUGE, 128), (4, HUGE)], ids=["negative", "bits", "group"]
)
def test_a_quantisation_that_cannot_be_is_not_counted(bits: int, group: int) -> None:
    told = {"quant_method": "awq", "bits": bits, "group_size": group}
    config = parse_model_config({**models.QWEN3_14B, "quantization_config": told})
    assert weights_of(config, folder=None, dtype="bfloat16") is None
