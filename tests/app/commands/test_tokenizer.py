"""Commands count with the model that was asked for, else with the newest one made here."""

import json
import os
from pathlib import Path

import pytest

from app.commands.tokenizer import CommandInputError, newest_model, open_tokenizer
from tests.tokenizer_folders import write_tokenizer


def made(cache: Path, name: str, *, at_s: int) -> Path:
    folder = write_tokenizer(cache / "models" / f"digest-of-{name}")
    index = cache / "models" / f"{name}.json"
    index.write_text(json.dumps({"schema_version": 1, "folder": folder.name}))
    os.utime(index, (at_s, at_s))
    return folder


def test_the_newest_model_counts(tmp_path: Path) -> None:
    assert newest_model(tmp_path) is None
    assert open_tokenizer(None, tmp_path) is None
    first = made(tmp_path, "b", at_s=1000)
    assert newest_model(tmp_path) == first
    second = made(tmp_path, "a", at_s=2000)
    assert newest_model(tmp_path) == second
    assert open_tokenizer(None, tmp_path) is not None


@pytest.mark.parametrize("index", ["", "[]", "{}", '{"folder": "gone"}', '{"folder": 3}'])
def test_an_index_of_no_model_is_passed_over(tmp_path: Path, index: str) -> None:
    whole = made(tmp_path, "whole", at_s=1000)
    (tmp_path / "models" / "broken.json").write_text(index)
    assert newest_model(tmp_path) == whole


def test_a_folder_that_no_index_names_is_not_taken(tmp_path: Path) -> None:
    """It may be half made, or somebody's test."""
    write_tokenizer(tmp_path / "models" / "making-1")
    assert newest_model(tmp_path) is None


def test_a_folder_that_cannot_be_used_is_told(tmp_path: Path) -> None:
    with pytest.raises(CommandInputError, match=r"has no tokenizer\.json"):
        open_tokenizer(tmp_path, tmp_path)
    folder = write_tokenizer(tmp_path / "model", chat_template="{% if %}")
    with pytest.raises(CommandInputError, match="chat template"):
        open_tokenizer(folder, tmp_path)
