"""What each answer says about its re-use, through a gateway in front of a simulated engine."""

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from app.accounting import RequestAccounting
from app.accounts import Account
from app.books import BookShelf
from app.engine import EngineClient
from app.prepared import Prepared
from app.replica import Replica
from app.settings import AccountingSettings, LedgerSettings, TiersSettings
from app.upstream import Timeouts, Upstream
from bench.engine_sim import (
    ClockConfig,
    EventsConfig,
    SimulatorConfig,
    SimulatorThread,
    TierConfig,
)
from prompts import Prompt, TokenizedPrompt
from tests.app.tier_server import TierServer, running_tier_server
from tests.engines import flush
from tests.gateways import (
    add_collection,
    gateway_settings,
    running_gateway,
    wait_until_followed,
    wait_until_ready,
    wait_until_subscribed,
)

FERRY = "When does the ferry to the island leave in the morning, and what does a dog ticket cost? "
JSONObject = dict[str, Any]


@dataclass
class Asker:
    """A client of one gateway, and the engine behind it."""

    url: str
    engine_url: str

    def chat(self, text: str, *, system: str | None = None, **fields: Any) -> JSONObject:
        messages = [{"role": "system", "content": system}] if system else []
        body = {
            "model": "default", "messages": [*messages, {"role": "user", "content": text}],
            "max_tokens": 4, "temperature": 0, "foreword": {},
        } | fields  # fmt: skip
        url = f"{self.url}/v1/chat/completions"
        answer = httpx.post(url, json=body, trust_env=False, timeout=60)
        assert answer.status_code == 200, answer.text
        made: JSONObject = answer.json()
        return made

    def ask(self, text: str, **fields: Any) -> JSONObject:
        block: JSONObject = self.chat(text, **fields)["foreword"]
        return block

    def explain(self, request_id: str, output: str = "json") -> httpx.Response:
        url = f"{self.url}/foreword/explain/{request_id}"
        return httpx.get(url, params={"format": output}, trust_env=False)

    def fault(self, **fault: Any) -> None:
        url = f"{self.engine_url}/simulator/faults"
        httpx.post(url, json=fault, trust_env=False).raise_for_status()

    def flush(self) -> None:
        flush(self.engine_url)
        wait_until_followed(self.url, self.engine_url)

    def wait_until_running(self, number: int) -> None:
        """Until so many requests are in the engine's batch."""
        deadline = time.monotonic() + 30
        url = f"{self.engine_url}/v1/loads"
        while True:
            loads = httpx.get(url, trust_env=False).json()["loads"]
            if sum(each["num_running_reqs"] for each in loads) == number:
                return
            assert time.monotonic() < deadline, "the engine does not get there"
            time.sleep(0.02)

    def ready(self) -> JSONObject:
        made: JSONObject = httpx.get(f"{self.url}/readyz", trust_env=False).json()
        return made

    def metrics(self) -> str:
        return httpx.get(f"{self.url}/metrics", trust_env=False).text


def simulator_config(folder: Path, *, replay: bool = True, **fields: Any) -> SimulatorConfig:
    events = EventsConfig(replay_endpoint="tcp://127.0.0.1:0" if replay else None, topic="kv")
    usual = {
        "model_path": folder,
        "clock": ClockConfig(speedup=20),
        "labels": ("template", "tenant"),
        "events": events,
    }
    return SimulatorConfig(**(usual | fields))


@contextmanager
def in_front_of(
    simulator: SimulatorThread, home: Path, settings: JSONObject | None = None
) -> Iterator[Asker]:
    """A gateway in front of an engine."""
    made = gateway_settings(home, simulator.url).model_copy(update=settings or {})
    with running_gateway(made) as url:
        wait_until_ready(url)
        if made.accounting.enabled:
            wait_until_subscribed(simulator.url)
        yield Asker(url, simulator.url)


@contextmanager
def asking(
    folder: Path, home: Path, *, settings: JSONObject | None = None, **fields: Any
) -> Iterator[Asker]:
    """A gateway and an engine of its own."""
    with (
        SimulatorThread(simulator_config(folder, **fields)) as simulator,
        in_front_of(simulator, home, settings) as asker,
    ):
        yield asker


@pytest.fixture(scope="module")
def asker(tokenizer_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Asker]:
    with asking(tokenizer_folder, tmp_path_factory.mktemp("home")) as made:
        yield made


def test_a_request_that_the_engine_failed_is_explained_by_the_id_in_its_header(
    asker: Asker,
) -> None:
    asker.fault(kind="error", status=500)
    body = {"model": "default", "messages": [{"role": "user", "content": FERRY}]}
    answer = httpx.post(f"{asker.url}/v1/chat/completions", json=body, trust_env=False)
    assert answer.status_code == 502
    request_id = answer.headers["x-request-id"]
    deadline = time.monotonic() + 30
    while (told := asker.explain(request_id)).status_code == 404:
        assert time.monotonic() < deadline
        time.sleep(0.1)
    assert told.json()["status"] == "error"


def test_the_same_question_again_is_a_hit_and_nothing_is_lost(asker: Asker) -> None:
    first = asker.ask(FERRY * 6)
    assert first["verdict"] in ("cold", "hit")  # the scaffold may have been there
    again = asker.ask(FERRY * 6)
    assert again["verdict"] == "hit"
    assert again["ideal_tokens"] == again["cached_tokens"] >= again["prompt_tokens"] - 16


def test_the_answer_counts_as_what_the_engine_holds(asker: Asker) -> None:
    """The next turn repeats question and answer: its ideal reaches into the answer."""
    question = {"role": "user", "content": "Tell me all about ferries, please. " * 5}
    first = asker.chat("", messages=[question], max_tokens=64, ignore_eos=True)
    answer = first["choices"][0]["message"]["content"]
    turns = [
        question,
        {"role": "assistant", "content": answer},
        {"role": "user", "content": "Go on"},
    ]
    again = asker.ask("", messages=turns)
    assert again["ideal_tokens"] >= again["cached_tokens"]
    assert again["verdict"] in ("hit", "changed", "cold")
    assert first["usage"]["completion_tokens"] == 64
    assert "output_ids" not in json.dumps(first)


def test_what_changed_is_named(asker: Asker) -> None:
    said = ({"role": "user", "content": FERRY * 4}, {"role": "assistant", "content": FERRY * 4})
    turns = [{"role": "system", "content": "It is Monday, 9:41. Be brief. " * 3}, *said]
    asker.ask("", messages=[*turns, {"role": "user", "content": "And a bicycle?"}])
    turns[0] = {"role": "system", "content": "It is Tuesday, 7:02. Be brief. " * 3}
    block = asker.ask("", messages=[*turns, {"role": "user", "content": "And a bicycle?"}])
    assert block["verdict"] == "changed"
    assert block["divergence"]["segment"] == "instructions"
    assert 0 < block["divergence"]["token"] < block["prompt_tokens"]


def test_the_story_of_a_request_can_be_asked_for(asker: Asker) -> None:
    block = asker.ask(FERRY * 6)
    told = asker.explain(block["request_id"], "text").text
    assert block["request_id"] in told
    assert f"{block['cached_tokens']:,}" in told
    assert asker.explain(block["request_id"]).json()["verdict"] == block["verdict"]
    missing = asker.explain("chatcmpl-0")
    assert missing.status_code == 404
    assert missing.json()["error"]["code"] == "request_not_found"
    assert "chatcmpl-0" in missing.json()["error"]["message"]


def test_diagnostics_come_where_they_are_asked_for(asker: Asker) -> None:
    assert "diagnostics" not in asker.ask(FERRY)
    asked = asker.ask(FERRY, foreword={"diagnostics": True})
    assert "diagnostics" in asked


def test_ideal_and_lost_tokens_are_counted(asker: Asker) -> None:
    said = ({"role": "user", "content": FERRY * 4}, {"role": "assistant", "content": FERRY * 4})
    for day in ("It is Wednesday. Be brief. ", "It is Thursday. Be brief. "):
        system = {"role": "system", "content": day * 3}
        asker.ask("", messages=[system, *said, {"role": "user", "content": "And a cat?"}])
    labels = 'template="chat@1",tenant="local"'
    deadline = time.monotonic() + 30
    while f'foreword_lost_tokens_total{{{labels},verdict="changed"}}' not in asker.metrics():
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert f"foreword_ideal_tokens_total{{{labels}}}" in asker.metrics()


def test_a_stream_ends_with_the_same_and_shows_no_usage_before(asker: Asker) -> None:
    asker.ask(FERRY * 6)
    body = {
        "model": "default", "messages": [{"role": "user", "content": FERRY * 6}],
        "max_tokens": 4, "stream": True, "stream_options": {"include_usage": True}, "foreword": {},
    }  # fmt: skip
    parts = _parts(asker, body)
    assert parts[-1]["foreword"]["verdict"] == "hit"
    assert all("usage" not in part for part in parts[:-1])
    asked = body | {"stream_options": {"include_usage": True, "continuous_usage_stats": True}}
    assert any("usage" in part for part in _parts(asker, asked)[:-1])


def test_a_given_up_stream_is_accounted(asker: Asker) -> None:
    asker.ask(FERRY * 6)
    body = {
        "model": "default", "messages": [{"role": "user", "content": FERRY * 6}],
        "max_tokens": 2000, "ignore_eos": True, "stream": True,
    }  # fmt: skip
    url = f"{asker.url}/v1/chat/completions"
    with httpx.stream("POST", url, json=body, trust_env=False) as response:
        request_id = response.headers["x-request-id"]
        lines = response.iter_lines()
        while '"content":""' in (line := next(lines)) or not line:
            pass
    told = _story(asker, request_id)
    assert told["status"] == "aborted"
    assert told["verdict"] == "hit"


def test_two_at_the_same_time_race(tokenizer_folder: Path, tmp_path: Path) -> None:
    """While the engine computes something else, two of a kind come and are computed together."""
    slow = ClockConfig(speedup=1, prefill_tokens_per_s=300)
    with asking(tokenizer_folder, tmp_path, clock=slow) as asker:
        blocks: list[JSONObject] = []
        texts = ("Something else takes a while. " * 150, FERRY * 8, FERRY * 8)
        threads = [
            threading.Thread(target=lambda t=text: blocks.append(asker.ask(t))) for text in texts
        ]
        threads[0].start()
        asker.wait_until_running(1)
        for thread in threads[1:]:
            thread.start()
        for thread in threads:
            thread.join()
        assert [block["verdict"] for block in blocks].count("engine") == 1


def test_what_was_pushed_out_is_evicted(tokenizer_folder: Path, tmp_path: Path) -> None:
    with asking(tokenizer_folder, tmp_path, capacity_tokens=1600) as asker:
        asker.ask(FERRY * 6)
        for number in range(6):
            asker.ask(f"{number} other words of another kind, {number}. " * 20)
        block = asker.ask(FERRY * 6)
        assert block["verdict"] == "evicted"
        assert block["ideal_tokens"] > block["cached_tokens"]
        asker.flush()
        cleared = asker.ask(FERRY * 6)
        assert cleared["verdict"] == "evicted"
        assert _story(asker, cleared["request_id"])["cause"] == "cleared"


def test_lost_events_are_asked_for_again(tokenizer_folder: Path, tmp_path: Path) -> None:
    with asking(tokenizer_folder, tmp_path, capacity_tokens=1600) as asker:
        asker.ask(FERRY * 6)
        asker.fault(kind="lose_events", times=3)
        for number in range(6):
            asker.ask(f"{number} other words of another kind, {number}. " * 20)
        block = asker.ask(FERRY * 6)
        assert block["verdict"] == "evicted"
        assert not any("KV events" in reason for reason in asker.ready()["reasons"])


def test_lost_events_without_replay_are_unknown_and_told(
    tokenizer_folder: Path, tmp_path: Path
) -> None:
    with asking(tokenizer_folder, tmp_path, replay=False, capacity_tokens=1600) as asker:
        asker.ask(FERRY * 6)
        asker.fault(kind="lose_events", times=20)
        for number in range(6):
            asker.ask(f"{number} other words of another kind, {number}. " * 20)
        httpx.delete(f"{asker.engine_url}/simulator/faults", trust_env=False)
        asker.ask("Something else again, so that the gap is seen. " * 10)
        block = asker.ask(FERRY * 6)
        assert block["verdict"] == "unknown"
        assert any("KV events were lost" in reason for reason in asker.ready()["reasons"])


def test_a_restarted_engine_has_lost_all(tokenizer_folder: Path, tmp_path: Path) -> None:
    config = simulator_config(tokenizer_folder)
    with SimulatorThread(config) as simulator, in_front_of(simulator, tmp_path) as asker:
        asker.ask(FERRY * 6)
        simulator.stop()
        _until_unready(asker)
        simulator.start()
        wait_until_ready(asker.url)
        wait_until_subscribed(simulator.url)
        block = asker.ask(FERRY * 6)
        assert (block["verdict"], block["cached_tokens"]) == ("evicted", 0)


def test_a_load_is_split_by_the_tier_servers_word(tokenizer_folder: Path, tmp_path: Path) -> None:
    with running_tier_server(TierServer()) as tiers:
        settings = {"tiers": TiersSettings(url=tiers.url, timeout_s=6)}
        with asking(tokenizer_folder, tmp_path, settings=settings, tier=TierConfig()) as asker:
            prompt = asker.ask(FERRY * 6)["prompt_tokens"]
            asker.flush()
            tiers.stop = (prompt - 1) // 64 * 64
            block = asker.ask(FERRY * 6)
            split = block["cached_by_tier"]
            assert tiers.asked == [block["request_id"]]
            assert split["ssd"] == split["storage"] == block["cached_tokens"] == tiers.stop
            assert (split["gpu"], split["ram"], split["redis"]) == (0, 0, 0)
            tiers.delay_s = 60.0
            try:
                asker.flush()
                before = time.monotonic()
                late = asker.ask(FERRY * 6)
                assert time.monotonic() - before < 30
            finally:
                tiers.delay_s = 0.0
            assert late["cached_by_tier"]["ssd"] is None
            assert late["cached_by_tier"]["storage"] == tiers.stop


def test_deleted_kv_is_never_used_again(tokenizer_folder: Path, tmp_path: Path) -> None:
    with running_tier_server(TierServer()) as tiers:
        settings = {"tiers": TiersSettings(url=tiers.url)}
        with asking(tokenizer_folder, tmp_path, settings=settings, tier=TierConfig()) as asker:
            asker.ask(FERRY * 6)
            url = f"{asker.url}/foreword/tenants/local/kv"
            deleted = httpx.delete(url, trust_env=False).json()
            assert (deleted["epoch"], deleted["pending"]) == (1, 0)
            assert len(tiers.destroyed) == 1
            block = asker.ask(FERRY * 6)
            assert (block["cached_tokens"], block["verdict"]) == (0, "cold")
            assert asker.ask(FERRY * 6)["verdict"] == "hit"


def test_a_deleted_collection_takes_its_kv_along(tokenizer_folder: Path, tmp_path: Path) -> None:
    with running_tier_server(TierServer()) as tiers:
        settings = {"tiers": TiersSettings(url=tiers.url)}
        with asking(tokenizer_folder, tmp_path, settings=settings, tier=TierConfig()) as asker:
            client = httpx.Client(base_url=asker.url, trust_env=False)
            with client:
                text = "Dogs travel for two euros. " * 40
                store = add_collection(asker.url, "ferry", text)
                options = {"foreword": {"collection": "ferry", "mode": "cag"}}
                asker.ask("A dog?", **options)
                assert asker.ask("A dog?", **options)["verdict"] == "hit"
                client.delete(f"/v1/vector_stores/{store}").raise_for_status()
                deadline = time.monotonic() + 30
                while not tiers.destroyed:
                    assert time.monotonic() < deadline
                    time.sleep(0.02)
                add_collection(asker.url, "ferry", text)
                assert asker.ask("A dog?", **options)["cached_tokens"] == 0


@pytest.mark.anyio
async def test_a_fault_of_accounting_ends_there(tmp_path: Path) -> None:
    """Here its engine has gone away between the request's preparation and its sending."""
    settings = gateway_settings(tmp_path, "http://127.0.0.1:9")
    timeouts = Timeouts(connect_s=1, first_byte_s=1, between_bytes_s=1)
    client = EngineClient(Upstream(settings.engine.url, timeouts=timeouts, max_connections=1))
    replica = Replica("engine-0", client, tokenizer_folder=None)
    shelf = BookShelf(settings.accounting, key=b"k" * 32)
    accounting = RequestAccounting(settings, shelf)
    rendered = Prompt(template="chat@1", segments=())
    account = Account(
        request_id="chatcmpl-1",
        tenant="local",
        prepared=Prepared(
            request_id="chatcmpl-1",
            tenant="local",
            salt="salt",
            model="tiny",
            template="chat@1",
            body={},
            labels={},
            rendered=rendered,
            prompt=TokenizedPrompt(prompt=rendered, token_ids=(1, 2, 3), ranges=()),
        ),
    )
    account.sent_to(replica, "only replica", None)
    accounting.expect(account)
    accounting.first_token(account)
    await accounting.settle(account)
    replica.close()
    assert accounting.errors == 1
    assert account.row().verdict == "unknown"


def test_messages_that_the_engine_renders_are_unknown(asker: Asker) -> None:
    odd = [{"role": "user", "content": "When?", "weight": 3}]
    block = asker.ask("", messages=odd)
    assert block["ideal_tokens"] is None
    assert (block["verdict"], block["cause"]) == ("unknown", "no_token_ids")


def test_the_last_request_can_be_explained_without_its_id(asker: Asker) -> None:
    block = asker.ask("Which request was the last one?")
    told = asker.explain("last").json()
    assert told["request_id"] == block["request_id"]


def test_the_re_use_of_several_answers_to_one_prompt_is_unknown(asker: Asker) -> None:
    """SGLang tells the figures of a copy, for which everything has just been computed."""
    block = asker.ask(FERRY * 3, n=2)
    assert block["cached_tokens"] is None
    assert block["verdict"] == "unknown"


def test_a_client_cant_fill_the_ledger_with_collections_that_arent_there(asker: Asker) -> None:
    body = {
        "model": "default", "messages": [{"role": "user", "content": FERRY}],
        "foreword": {"collection": "no such"},
    }  # fmt: skip
    answer = httpx.post(f"{asker.url}/v1/chat/completions", json=body, trust_env=False)
    assert answer.status_code == 404
    told = asker.explain("last").json()
    assert told["status"] == "error"
    assert told.get("collection") is None


def test_without_accounting_there_is_no_verdict(tokenizer_folder: Path, tmp_path: Path) -> None:
    settings = {"accounting": AccountingSettings(enabled=False)}
    with asking(tokenizer_folder, tmp_path, settings=settings) as asker:
        asker.ask(FERRY)
        block = asker.ask(FERRY)
        assert block["cached_tokens"] > 0
        assert (block["verdict"], block["ideal_tokens"]) == (None, None)
        assert asker.ready()["status"] == "ok"


@pytest.mark.parametrize("kept", [False, True])
def test_prompt_text_is_kept_only_where_it_was_switched_on(
    tokenizer_folder: Path, tmp_path: Path, kept: bool
) -> None:
    settings = {"ledger": LedgerSettings(prompt_text=kept, flush_s=0.05)}
    with asking(tokenizer_folder, tmp_path, settings=settings) as asker:
        asker.ask("the word xylophone")
        time.sleep(0.3)
    files = b"".join(path.read_bytes() for path in tmp_path.glob("foreword.db*"))
    assert (b"xylophone" in files) is kept


def _until_unready(asker: Asker) -> None:
    deadline = time.monotonic() + 60
    while httpx.get(f"{asker.url}/readyz", trust_env=False).status_code == 200:
        assert time.monotonic() < deadline, "the gateway never missed its engine"
        time.sleep(0.05)


def _parts(asker: Asker, body: JSONObject) -> list[JSONObject]:
    url = f"{asker.url}/v1/chat/completions"
    text = httpx.post(url, json=body, trust_env=False).text
    return [
        json.loads(line.removeprefix("data: "))
        for line in text.splitlines()
        if line.startswith("data: {")
    ]


def _story(asker: Asker, request_id: str) -> JSONObject:
    """The explanation, as soon as the request has ended."""
    deadline = time.monotonic() + 30
    while (answer := asker.explain(request_id)).status_code == 404:
        assert time.monotonic() < deadline, "the request never got into the ledger"
        time.sleep(0.05)
    made: JSONObject = answer.json()
    return made
