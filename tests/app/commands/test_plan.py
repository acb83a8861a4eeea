"""`foreword plan`: what it prints, and how it fails."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from app.commands.plan import plan
from tests.kv_plan_configs import JAMBA, LLAMA_31_70B, QWEN3_14B


@pytest.fixture
def qwen(tmp_path: Path) -> Path:
    folder = tmp_path / "qwen3-14b"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(dict(QWEN3_14B)))
    return folder


def run(*arguments: object) -> Result:
    return CliRunner().invoke(plan, [str(argument) for argument in arguments])


def test_each_figure_comes_with_its_arithmetic(qwen: Path) -> None:
    result = run(qwen, "--gpu", "L40S", "--tier", "ram=64", "--tier", "ssd=500")
    assert result.exit_code == 0, result.output
    assert "40 layers x 8 KV heads x (128 + 128) numbers" in result.output
    assert "43.99 GiB x 0.843 - 27.51 GiB of weights" in result.output
    assert "62,736 tokens" in result.output
    assert "335,488 tokens" in result.output


def test_json_has_the_same_figures(qwen: Path) -> None:
    result = run(
        qwen / "config.json", "--gpu", "L40S", "--corpus-tokens", 10_000, "--format", "json"
    )
    body = json.loads(result.output)
    assert body["kv_bytes_per_token"] == 163_840
    assert body["pool"]["tokens"] == 62_736
    assert body["corpus"]["held_tokens"] == 10_000
    assert body["memory"]["mem_fraction_static"] == 0.843


def test_several_models_are_compared(qwen: Path) -> None:
    result = run(qwen, qwen, "--gpu-memory-gib", 45, "--format", "json")
    assert [each["gpus"] for each in json.loads(result.output)] == [1, 1]


def test_fp8_kv_holds_twice_as_much(qwen: Path) -> None:
    whole = json.loads(run(qwen, "--gpu", "H100", "--format", "json").output)
    half = json.loads(run(qwen, "--gpu", "H100", "--kv-dtype", "fp8", "--format", "json").output)
    assert half["pool"]["tokens"] == pytest.approx(2 * whole["pool"]["tokens"], rel=1e-3)


def test_what_does_not_fit_is_a_finding(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(dict(LLAMA_31_70B)))
    result = run(tmp_path, "--gpu", "L4")
    assert result.exit_code == 1
    assert "it doesn't fit" in result.output


def test_a_figure_that_is_not_known_is_said(tmp_path: Path) -> None:
    config = {**QWEN3_14B, "quantization_config": {"quant_method": "unheard-of"}}
    (tmp_path / "config.json").write_text(json.dumps(config))
    result = run(tmp_path, "--gpu", "H100")
    assert result.exit_code == 0
    assert "--weights-gib" in result.output
    assert "worst-case" not in result.output
    assert "worst-case" in run(tmp_path, "--gpu", "H100", "--weights-gib", 10).output


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["Qwen/Qwen3-14B"], "nothing is downloaded here"),
        (["smollm2-135m-instruct"], "`foreword up` makes it once"),
        (["{qwen}", "--gpu", "potato"], "give --gpu-memory-gib"),
        (["{qwen}", "--gpu", "L4", "--gpu-memory-gib", "24"], "not both"),
        (["{qwen}", "--free-gib", "20"], "--gpu-memory-gib"),
        (["{qwen}", "--gpu", "H100", "--tp", "7"], "can't be shared evenly by 7 GPUs"),
        (["{qwen}", "--tier", "tape=3"], "isn't a tier"),
        (["{qwen}", "--tier", "ssd=big"], "isn't a size in GiB"),
        (["{qwen}", "--tier", "ssd=-1"], "ssd_gb"),
        (["{qwen}", "--tier", "ram=1", "--chunk-tokens", "50"], "chunk_tokens"),
        (["{qwen}", "--kv-dtype", "int2"], "number type"),
        (["{qwen}", "--mem-fraction", "1.2"], "--mem-fraction"),
        (["{qwen}", "--collection", "handbook"], "--corpus-tokens"),
    ],
)
def test_mistakes_end_in_one_sentence(
    qwen: Path, tmp_path: Path, arguments: list[str], sentence: str
) -> None:
    result = run(*(part.format(qwen=qwen) for part in arguments), "--cache", tmp_path / "none")
    assert result.exit_code == 2
    assert sentence in result.output
    assert "Traceback" not in result.output


def test_a_model_that_is_not_understood_is_refused(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(dict(JAMBA)))
    result = run(tmp_path)
    assert result.exit_code == 2
    assert "SGLang 0.5.23 has no model" in result.output


def test_without_a_model_the_running_engine_is_asked(tmp_path: Path) -> None:
    result = run("--home", tmp_path)
    assert result.exit_code == 3
    assert "foreword up" in result.output
