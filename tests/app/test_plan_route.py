"""`/foreword/plan` of a running gateway."""

import json
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from bench.engine_sim import SimulatorConfig, SimulatorThread
from tests.gateways import add_collection, gateway_settings, running_gateway, wait_until_ready
from tests.kv_plan_configs import QWEN3_8B
from tests.tokenizer_folders import CHATML_TOOLS, write_tokenizer


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A gateway before an engine whose model folder has a config.json of its own."""
    folder = write_tokenizer(tmp_path_factory.mktemp("models") / "qwen", chat_template=CHATML_TOOLS)
    (folder / "config.json").write_text(json.dumps(dict(QWEN3_8B)))
    with SimulatorThread(SimulatorConfig(model_path=folder)) as simulator:
        settings = gateway_settings(tmp_path_factory.mktemp("home"), simulator.url)
        with running_gateway(settings) as url:
            wait_until_ready(url)
            yield url


def test_the_engines_own_pool_is_planned(url: str) -> None:
    body = httpx.get(f"{url}/foreword/plan", trust_env=False).json()
    plan = body["plan"]
    assert plan["architecture"] == "Qwen3ForCausalLM"
    assert plan["kv_bytes_per_token"] == 36 * 8 * 256 * 2
    assert plan["pool"]["tokens"] == body["engine"]["pool_tokens"] > 0
    assert body["engine"]["prefill_tokens_per_s"] is None
    assert body["tiers"] == []


def test_a_corpus_is_set_against_pool_and_window(url: str) -> None:
    parameters = {"corpus_tokens": "1000"}
    answer = httpx.get(f"{url}/foreword/plan", params=parameters, trust_env=False)
    corpus = answer.json()["plan"]["corpus"]
    assert corpus["held_tokens"] == 992
    assert corpus["fits_window"]


def test_text_says_what_is_not_known(url: str) -> None:
    answer = httpx.get(f"{url}/foreword/plan", params={"format": "text"}, trust_env=False)
    assert "grouped-query attention" in answer.text
    assert "not measured yet" in answer.text


def test_an_unknown_collection_is_said(url: str) -> None:
    answer = httpx.get(f"{url}/foreword/plan", params={"collection": "none"}, trust_env=False)
    assert answer.status_code == 404


def test_a_collection_is_counted(url: str, tmp_path: Path) -> None:
    add_collection(url, "rules", "The door is blue. " * 40)
    body = httpx.get(f"{url}/foreword/plan", params={"collection": "rules"}, trust_env=False).json()
    assert body["plan"]["corpus"]["tokens"] > 40


def test_a_model_that_cannot_be_planned_still_shows_the_engine(gateway: str) -> None:
    """The simulator's usual folder has a tokenizer and nothing else."""
    body = httpx.get(f"{gateway}/foreword/plan", trust_env=False).json()
    assert body["plan"] is None
    assert "config.json" in body["plan_problem"]
    assert body["engine"]["pool_tokens"] > 0
    text = httpx.get(f"{gateway}/foreword/plan", params={"format": "text"}, trust_env=False).text
    assert "no plan can be made" in text
