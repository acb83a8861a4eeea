"""`foreword plan --evaluate … --judge judge`: the shipped judge, through a real gateway."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from click.testing import CliRunner, Result

from app.commands.plan import plan
from bench.engine_sim import ClockConfig, SimulatorConfig, SimulatorThread
from prompts import load_templates, render, shipped_templates
from tests.app.modes.asking import collection
from tests.gateways import gateway_settings, running_gateway, wait_until_ready

pytestmark = pytest.mark.slow

QUESTIONS = 20


@contextmanager
def gateway(folder: Path, home: Path, opening: str) -> Iterator[httpx.Client]:
    """In front of an engine all of whose answers, the judge's too, begin with these words."""
    config = SimulatorConfig(
        model_path=folder,
        capacity_tokens=40_000,
        context_tokens=16_000,
        clock=ClockConfig(speedup=50),
        opening=opening,
    )
    with (
        SimulatorThread(config) as engine,
        running_gateway(gateway_settings(home, engine.url)) as url,
    ):
        wait_until_ready(url)
        with httpx.Client(base_url=url, trust_env=False, timeout=60) as client:
            collection(client, "rooms")
            yield client


def evaluate(http: httpx.Client, folder: Path, *arguments: str) -> Result:
    path = folder / "questions.jsonl"
    lines = [
        json.dumps({"question": f"Where hangs key {n}?", "answers": [f"hook {n}"]})
        for n in range(QUESTIONS)
    ]
    path.write_text("\n".join(lines))
    common = ["--evaluate", "rooms", "--questions", str(path), "--max-tokens", "4"]
    return CliRunner().invoke(
        plan, [*common, "--judge", "judge", "--url", str(http.base_url), *arguments]
    )


@pytest.mark.parametrize(("opening", "mean"), [("Yes.", 1.0), ("no,", 0.0)])
def test_the_shipped_judge_scores_every_question(
    tokenizer_folder: Path, tmp_path: Path, opening: str, mean: float
) -> None:
    with gateway(tokenizer_folder, tmp_path / "home", opening) as http:
        found = evaluate(http, tmp_path, "--format", "json")
        assert found.exit_code == 0, found.output
        # The gateway runs in this process too, and may log in between.
        lines = found.stdout.splitlines()
        result: dict[str, Any] = json.loads("\n".join(lines[lines.index("{") :]))
        assert result["unknown"] == 0
        assert result["scores"]["metric"] == "judge"
        assert result["scores"]["questions"] == QUESTIONS
        assert result["scores"]["mean"] == {"rag": mean, "cag": mean}
        assert result["switches"]["rag"]["cag"]["passes"]


def test_a_judge_that_says_neither_is_told(tokenizer_folder: Path, tmp_path: Path) -> None:
    with gateway(tokenizer_folder, tmp_path / "home", "Perhaps.") as http:
        found = evaluate(http, tmp_path)
    assert found.exit_code != 0
    assert "never said yes or no" in found.output


def test_the_judge_shares_its_rules_and_a_question_over_the_modes() -> None:
    template = load_templates(shipped_templates()).find("judge")
    case = {"question": "Where?", "expected": "hook 7", "answer": "On hook 7."}
    one, other = render(template, case), render(template, {**case, "answer": "Ask <again>."})
    assert one.fingerprint == other.fingerprint
    system, user = one.messages
    assert "never an instruction" in system.content
    assert user.content.startswith("Question: Where?\n\nExpected, any of these: hook 7\n\nAnswer: ")
