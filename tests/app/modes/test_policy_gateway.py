"""The choice of the mode through a real gateway, before a simulated engine."""

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from click.testing import CliRunner

from app.commands.plan import plan
from app.settings import ModesSettings, PricesSettings
from bench.engine_sim import ClockConfig, EventsConfig, SimulatorConfig, SimulatorThread
from tests.app.modes.asking import ask, collection
from tests.gateways import gateway_settings, running_gateway, wait_until_ready

pytestmark = pytest.mark.slow

QUIET = ModesSettings(dwell_s=0.0)


@pytest.fixture(scope="module")
def engine(tokenizer_folder: Path) -> Iterator[SimulatorThread]:
    config = SimulatorConfig(
        model_path=tokenizer_folder,
        capacity_tokens=40_000,
        context_tokens=16_000,
        clock=ClockConfig(speedup=5),
        events=EventsConfig(replay_endpoint="tcp://127.0.0.1:0", topic="kv"),
    )
    with SimulatorThread(config) as running:
        yield running


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("home")


@pytest.fixture
def http(engine: SimulatorThread, home: Path) -> Iterator[httpx.Client]:
    """A gateway that is started anew for each test, on one home."""
    changes = {"modes": QUIET, "prices": PricesSettings(input=1.25, cached_input=0.125)}
    settings = gateway_settings(home, engine.url).model_copy(update=changes)
    with running_gateway(settings) as url:
        wait_until_ready(url)
        with httpx.Client(base_url=url, trust_env=False, timeout=60) as client:
            yield client


def row_of(http: httpx.Client, name: str) -> dict[str, Any]:
    body = http.get("/foreword/plan", params={"collection": name}).raise_for_status().json()
    row = body["modes"][0]
    assert isinstance(row, dict)
    return row


def test_a_small_collection_comes_to_be_shown_whole(http: httpx.Client) -> None:
    collection(http, "rooms")
    blocks = [ask(http, "rooms", f"Where hangs the key of room {n}?") for n in range(12)]
    assert blocks[-1]["mode"] == "cag", blocks[-1]["mode_reason"]
    costs = blocks[-1]["mode_costs"]
    assert costs["cag"]["lasting_s"] < costs["rag"]["lasting_s"]
    assert "in the long run" in blocks[-1]["mode_reason"]
    assert blocks[-1]["predicted_ttft_s"] > 0


def test_the_table_shows_modes_costs_rates_and_gate(http: httpx.Client) -> None:
    collection(http, "rooms")
    ask(http, "rooms", "Where hangs the key of room 1?")
    row = row_of(http, "rooms")
    assert row["rates"]["asked_per_hour"] > 0
    assert row["money"]["rag"]["vendor_dollars"] > 0
    assert row["money"]["rag"]["gpu_dollars"] is None
    assert row["costs"]["rag"]["possible"]
    assert row["gate"]["switches"]["rag" if row["mode"] == "cag" else "cag"]["passes"]
    text = http.get("/foreword/plan", params={"format": "text"}).text
    assert "rooms: " in text
    assert "to first token" in text
    assert "cost only" in text


def test_what_was_learned_survives_a_restart(http: httpx.Client) -> None:
    """The fixture's gateway is a new one, on the home of those before it."""
    collection(http, "rooms")
    row = row_of(http, "rooms")
    assert row["mode"] == "cag"
    assert sum(row["decided"].values()) >= 12


def test_filters_are_answered_by_retrieval(http: httpx.Client) -> None:
    collection(http, "rooms")
    wanted = {"type": "eq", "key": "floor", "value": "1"}
    body = {
        "model": "default",
        "messages": [{"role": "user", "content": "Which room?"}],
        "foreword": {"collection": "rooms", "filters": wanted, "mode": "cag"},
    }
    answer = http.post("/v1/chat/completions", json=body)
    assert answer.status_code == 400
    assert "ask with mode rag or auto" in answer.json()["error"]["message"]
    assert ask(http, "rooms", "Which room?", filters=wanted)["mode"] == "rag"


def test_a_request_names_its_mode(http: httpx.Client) -> None:
    collection(http, "rooms")
    for mode in ("rag", "cag", "hybrid"):
        block = ask(http, "rooms", "Where hangs the key of room 3?", mode=mode)
        assert block["mode"] == mode
        assert block["mode_reason"].partition(";")[0] == "the request asks for it"


def test_a_collection_too_large_is_retrieved_and_the_numbers_are_told(http: httpx.Client) -> None:
    large = "\n\n".join(
        f"Item {n} lies on shelf {n % 97} beside item {n + 1}." for n in range(2500)
    )
    collection(http, "store", large)
    block = ask(http, "store", "Where lies item 7?")
    deadline = time.monotonic() + 60
    while block["mode_costs"]["cag"]["problem"].endswith("still being counted"):
        assert time.monotonic() < deadline
        block = ask(http, "store", "Where lies item 7?")
    assert block["mode"] == "rag"
    assert "16,000" in block["mode_costs"]["cag"]["problem"]


def test_the_ledger_keeps_reason_and_prediction(http: httpx.Client) -> None:
    collection(http, "rooms")
    block = ask(http, "rooms", "Where hangs the key of room 5?")
    deadline = time.monotonic() + 30
    while True:
        answer = http.get(f"/foreword/explain/{block['request_id']}", params={"format": "json"})
        if answer.status_code == 200:
            break
        assert time.monotonic() < deadline
        time.sleep(0.2)
    row = answer.json()
    assert row["mode_reason"] == block["mode_reason"]
    assert row["predicted_ttft_s"] == pytest.approx(block["predicted_ttft_s"])


def test_an_evaluation_is_kept_and_gates_the_switch(http: httpx.Client, tmp_path: Path) -> None:
    """The simulated engine's answers are all wrong in either mode: equal, so it passes."""
    collection(http, "rooms")
    questions = tmp_path / "questions.jsonl"
    questions.write_text(
        "".join(
            json.dumps({"question": f"Where hangs key {n}?", "answers": [f"on hook {n}"]}) + "\n"
            for n in range(20)
        )
    )
    arguments = ["--evaluate", "rooms", "--questions", str(questions), "--max-tokens", "4"]
    arguments += ["--metric", "exact_match", "--url", str(http.base_url), "--format", "json"]
    found = CliRunner().invoke(plan, arguments)
    assert found.exit_code == 0, found.output
    result = json.loads(found.stdout)
    assert result["scores"]["questions"] == 20
    assert result["switches"]["rag"]["cag"]["passes"]
    assert row_of(http, "rooms")["gate"]["scores"]["metric"] == "exact_match"


def test_worse_answers_keep_auto_from_switching(http: httpx.Client) -> None:
    """An evaluation in which the whole collection was answered worse."""
    collection(http, "halls")
    row = row_of(http, "halls")
    model = http.get("/foreword/plan").json()["model"]
    body = {
        "metric": "token_f1",
        "revision": row["revision"],
        "model": model,
        "scores": {"rag": [1.0] * 30, "cag": [0.5] * 30},
    }
    stored = http.put("/foreword/plan/quality/halls", json=body).raise_for_status().json()
    assert not stored["switches"]["rag"]["cag"]["passes"]
    blocks = [ask(http, "halls", f"Where hangs the key of room {n}?") for n in range(8)]
    assert {block["mode"] for block in blocks} == {"rag"}
    assert "token_f1 of cag is -0.500" in blocks[-1]["mode_reason"]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"revision": 99}, "documents changed"),
        ({"scores": {"rag": [1.0], "cag": [1.0, 0.0]}}, "each of the same questions"),
        ({"scores": {"auto": [1.0]}}, "modes rag, cag and hybrid"),
        ({"metric": "bleu"}, "metric"),
        ({"scores": {"rag": [2.0]}}, "less than or equal to 1"),
    ],
)
def test_scores_that_can_not_be_are_refused(
    http: httpx.Client, change: dict[str, Any], words: str
) -> None:
    collection(http, "rooms")
    body = {
        "metric": "token_f1",
        "revision": row_of(http, "rooms")["revision"],
        "model": "m",
        "scores": {"rag": [1.0]},
    }
    answer = http.put("/foreword/plan/quality/rooms", json=body | change)
    assert answer.status_code == 400
    assert words in answer.json()["error"]["message"]
