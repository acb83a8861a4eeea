"""Scores of answers, and the table of a run against the simulator's gateway."""

import json
from pathlib import Path

import openai
import pytest
from click.testing import CliRunner

from bench.engine_sim import ClockConfig, SimulatorConfig, SimulatorThread
from bench.order_quality import ORDERS, holds, main, token_f1
from tests.gateways import gateway_settings, running_gateway, wait_until_ready
from tests.tokenizer_folders import write_tokenizer


def test_an_answer_is_compared_in_words() -> None:
    assert token_f1("The ferry leaves at nine.", "ferry leaves at NINE") == 1
    assert token_f1("ten", "nine") == 0
    assert token_f1("at nine or ten", "nine") == pytest.approx(0.4)
    assert holds("It leaves at 9:30, daily.", "9:30")
    assert not holds("It costs 150.", "50")


def test_a_run_asks_every_question_in_every_order(tmp_path: Path) -> None:

    folder = write_tokenizer(tmp_path / "tiny")
    config = SimulatorConfig(model_path=folder, clock=ClockConfig(speedup=20))
    questions, out = tmp_path / "questions.jsonl", tmp_path / "raw.jsonl"
    questions.write_text(json.dumps({"question": "When?", "answers": ["at nine", "9:00"]}) + "\n")
    with (
        SimulatorThread(config) as simulator,
        running_gateway(gateway_settings(tmp_path / "home", simulator.url)) as url,
        openai.OpenAI(base_url=f"{url}/v1", api_key="x") as client,
    ):
        wait_until_ready(url)
        store = client.vector_stores.create(name="ferry")
        file = client.files.create(
            file=("a.md", b"The ferry leaves at nine."), purpose="assistants"
        )
        client.vector_stores.files.create_and_poll(file.id, vector_store_id=store.id)
        options = ["--url", url, "--collection", store.id, "--questions", str(questions)]
        done = CliRunner().invoke(main, [*options, "--out", str(out)])
    assert done.exit_code == 0, done.output
    raw = [json.loads(line) for line in out.read_text().splitlines()]
    assert [one["order"] for one in raw] == list(ORDERS)
    assert all(f"| {order} | 1 |" in done.output for order in ORDERS)
