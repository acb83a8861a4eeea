"""The options of `foreword up`, and the first words to type."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from app.stack.settings import DEFAULT_HOME, StackSettings
from app.stack.up_command import first_commands, home_prefix, sample_folder, up


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--redis", "--no-tiers"], "--redis is a tier"),
        (["--kv-serde", "fp8", "--no-tiers"], "--kv-serde is of tiers"),
        (["--kv-serde", "zip"], "'zip' is not one of"),
        (["--ram-gb", "0"], "0.0 is not in the range"),
        (["--ssd-gb", "-1"], "-1.0 is not in the range"),
        (["--pool-tokens", "0"], "0 is not in the range"),
        (["--engine-url", "http://x", "--redis"], "brings its own model and tiers"),
        (["--engine-url", "http://x", "--model", "y"], "brings its own model and tiers"),
        (["--engine-url", "http://x", "--pool-tokens", "9"], "brings its own model and tiers"),
        (["--port", "70000"], "70000 is not in the range"),
        (["--engine-url", "http://x", "--engine-args", "-x"], "brings its own model and tiers"),
        (["--engine-args", "--name 'open"], "--engine-args: no closing quotation"),
        (["--replicas", "0"], "0 is not in the range"),
        (["--engine-url", "http://x", "--replicas", "2"], "brings its own model and tiers"),
        (["--host", "0.0.0.0"], "--host 0.0.0.0 would let anyone on the network in"),
        (["--model", "/no/such/folder"], "--model /no/such/folder: no such folder"),
    ],
)
def test_bad_usage_is_one_sentence_and_status_2(
    tmp_path: Path, arguments: list[str], says: str
) -> None:
    env = {"FOREWORD_HOME": str(tmp_path / "home"), "FOREWORD_CACHE": str(tmp_path / "cache")}
    result = CliRunner().invoke(up, arguments, env=env)
    assert result.exit_code == 2, result.output
    assert says in result.stderr
    assert "Traceback" not in result.stderr
    assert not (tmp_path / "home").exists()


def test_an_engine_that_is_not_there_is_one_sentence_and_status_3(tmp_path: Path) -> None:
    arguments = ["--engine-url", "http://127.0.0.1:9", "--home", str(tmp_path), "--port", "0"]
    result = CliRunner().invoke(up, arguments)
    assert result.exit_code == 3
    assert result.stderr == (
        "foreword: no engine is ready at http://127.0.0.1:9 ([Errno 111] Connection refused): "
        "start SGLang there, or leave --engine-url away to have one started here.\n"
    )


def test_the_sample_collection_ships() -> None:
    assert list(sample_folder().iterdir())


def test_the_first_commands_find_this_stack(tmp_path: Path) -> None:
    here = StackSettings(home=tmp_path, cache=tmp_path, base_env={})
    commands = first_commands("http://127.0.0.1:1", home_prefix(here))
    assert commands[0].startswith("curl -s http://127.0.0.1:1/v1/chat/completions")
    assert all(command.startswith(f"FOREWORD_HOME={tmp_path} ") for command in commands[1:])
    default = StackSettings(home=DEFAULT_HOME, cache=tmp_path, base_env={})
    assert home_prefix(default) == ""
