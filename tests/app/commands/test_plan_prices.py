"""`foreword plan` with prices and with questions: what it prints and what it refuses."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from app.commands.plan import plan

EXAMPLE = ["--input-price", "1.25", "--cached-price", "0.125", "--corpus-tokens", "99500"]


def run(*arguments: str) -> Result:
    return CliRunner().invoke(plan, arguments)


def test_the_worked_example_without_a_gateway() -> None:
    result = run(*EXAMPLE)
    assert result.exit_code == 0, result.output
    assert "$0.006938  500 cached x $0.125/M + 5,500 x $1.25/M" in result.stdout
    assert "$0.013125  100,000 cached x $0.125/M + 500 x $1.25/M" in result.stdout


def test_json_has_the_same_figures() -> None:
    body = json.loads(run(*EXAMPLE, "--format", "json").stdout)
    assert round(body["modes"]["rag"]["dollars"], 3) == 0.007
    assert round(body["modes"]["cag"]["dollars"], 3) == 0.013
    assert body["break_even_corpus_tokens"] == 50_000
    assert body["modes"]["cag"]["gpu_s"] is None


def test_gpus_of_ones_own() -> None:
    result = run("--prefill-speed", "8000", "--gpu-hour", "2", "--corpus-tokens", "99500")
    assert "cag is cheaper from 20.0 requests a warming on" in result.stdout
    assert "vendor" not in result.stdout


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--input-price", "1"], "--corpus-tokens is missing"),
        (["--cached-price", "1", "--prefill-speed", "9", "--corpus-tokens", "9"], "--input-price"),
        (["model", "--input-price", "1"], "leave it out"),
        (["--evaluate", "rooms"], "--questions"),
        (["--input-price", "-1"], "range"),
    ],
)
def test_what_is_missing_is_said(arguments: list[str], words: str) -> None:
    result = run(*arguments)
    assert result.exit_code == 2
    assert words in result.output


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("", "holds no question"),
        ('{"question": "a", "answers": ["b"]}\nnot json\n', "line 2: not JSON"),
        ('{"question": "a"}\n', 'needs {"question"'),
        ('{"question": " ", "answers": ["b"]}\n', "at least one answer"),
        ('{"question": "a", "answers": []}\n', "at least one answer"),
        ('{"question": "a", "answers": ["b", 1]}\n', "at least one answer"),
    ],
)
def test_questions_that_can_not_be_read_name_their_line(
    tmp_path: Path, content: str, words: str
) -> None:
    questions = tmp_path / "questions.jsonl"
    questions.write_text(content)
    result = run("--evaluate", "rooms", "--questions", str(questions))
    assert result.exit_code == 2
    assert words in result.output
