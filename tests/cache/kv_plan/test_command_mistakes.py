"""Numbers that can't be, given to `foreword plan`: one sentence and exit code 2, no traceback."""

import json
from collections.abc import Mapping
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from app.commands.plan import plan
from tests.kv_plan_configs import FALCON_H1_7B, LLAMA_31_8B


def run(folder: Path, facts: Mapping[str, object], *arguments: str) -> Result:
    (folder / "config.json").write_text(json.dumps(dict(facts)))
    return CliRunner().invoke(plan, [str(folder), *arguments])


def refused(result: Result, *, naming: str) -> bool:
    tidy = isinstance(result.exception, SystemExit) and "Traceback" not in result.output
    return tidy and result.exit_code == 2 and naming in result.output


@pytest.mark.parametrize("value", ["nan", "inf", "-inf", "1e308", "-1", "0"])
@pytest.mark.parametrize(
    "option", ["--gpu-memory-gib", "--free-gib", "--weights-gib", "--mem-fraction"]
)
def test_amounts(tmp_path: Path, option: str, value: str) -> None:
    card = [] if option == "--gpu-memory-gib" else ["--gpu", "H100"]
    assert refused(run(tmp_path, LLAMA_31_8B, *card, option, value), naming=option)


@pytest.mark.parametrize("value", ["nan", "inf", "-inf", "1e308"])
def test_sizes_of_tiers(tmp_path: Path, value: str) -> None:
    result = run(tmp_path, LLAMA_31_8B, "--tier", f"ram={value}")
    assert refused(result, naming="isn't a size in GiB")


@pytest.mark.parametrize("option", ["--tp", "--page-size", "--context", "--corpus-tokens"])
def test_counts(tmp_path: Path, option: str) -> None:
    assert refused(run(tmp_path, LLAMA_31_8B, option, "9" * 400), naming=option)


def test_more_free_memory_than_there_is(tmp_path: Path) -> None:
    result = run(tmp_path, LLAMA_31_8B, "--gpu", "H100", "--free-gib", "90")
    assert refused(result, naming="--free-gib is 90, but the GPU has only 79.65 GiB in all")
    result = run(tmp_path, LLAMA_31_8B, "--gpu-memory-gib", "80", "--free-gib", "80")
    assert result.exit_code == 0


@pytest.mark.parametrize(
    ("facts", "naming"),
    [
        ({**LLAMA_31_8B, "num_hidden_layers": 0}, "num_hidden_layers"),
        ({**LLAMA_31_8B, "max_position_embeddings": 0}, "max_position_embeddings"),
        ({**LLAMA_31_8B, "num_key_value_heads": 0}, "num_key_value_heads"),
        ({**LLAMA_31_8B, "num_key_value_heads": -8}, "num_key_value_heads"),
        ({**FALCON_H1_7B, "mamba_n_heads": 0}, "mamba_n_heads"),
        ({**LLAMA_31_8B, "rope_scaling": {"factor": float("nan")}}, "rope_scaling"),
        ({**LLAMA_31_8B, "rope_scaling": {"factor": float("inf")}}, "rope_scaling"),
    ],
)
def test_configs(tmp_path: Path, facts: Mapping[str, object], naming: str) -> None:
    result = run(tmp_path, facts, "--gpu", "H100", "--tier", "ram=16")
    assert refused(result, naming=naming)


def test_gpus_that_cannot_share_the_kv_heads(tmp_path: Path) -> None:
    facts = {**LLAMA_31_8B, "num_attention_heads": 48, "num_key_value_heads": 8}
    result = run(tmp_path, facts, "--gpu", "H100", "--tp", "3")
    assert refused(result, naming="8 KV heads can't be shared evenly by 3 GPUs")
