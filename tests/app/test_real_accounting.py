"""The gateway's accounting in front of the real SGLang and LMCache: it says what they did."""

import time
from collections.abc import Iterator

import httpx
import pytest

from app.settings import TiersSettings
from tests.app.test_accounting import Asker
from tests.conftest import RealEngine
from tests.engines import flush, stored, wait_until_heard
from tests.gateways import gateway_settings, running_gateway, wait_until_ready

pytestmark = pytest.mark.engine

STORY = "The ferry to the lighthouse island leaves at nine; dogs travel for two euros. " * 30


@pytest.fixture(scope="module")
def asker(engine: RealEngine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Asker]:
    home = tmp_path_factory.mktemp("home")
    settings = gateway_settings(home, engine.url, tokenizer=engine.model_path)
    settings = settings.model_copy(update={"tiers": TiersSettings(url=engine.stack.tier_url)})
    with running_gateway(settings) as url:
        wait_until_ready(url)
        wait_until_heard(engine, url)
        yield Asker(url, engine.url)


def test_a_second_question_is_a_hit(asker: Asker) -> None:
    first = asker.ask(STORY, ignore_eos=True, max_tokens=20)
    # The engine may have met the same opening under another test's salt.
    assert (first["cached_tokens"], first["verdict"] in ("cold", "isolated")) == (0, True), first
    again = asker.ask(STORY)
    assert again["verdict"] == "hit", again
    assert again["cached_tokens"] >= again["prompt_tokens"] - 16


def test_after_a_flush_the_tier_serves_and_says_which_it_was(
    asker: Asker, engine: RealEngine
) -> None:
    text = "Another story. " + STORY
    with stored(engine.stack.tier_url):
        asker.ask(text)
    flush(engine.url)
    block = asker.ask(text)
    split = block["cached_by_tier"]
    assert split["storage"] > 0, block
    assert split["ram"] == split["storage"], block
    assert block["verdict"] in ("hit", "rounding"), block


def test_a_given_up_stream_knows_what_was_reused(asker: Asker) -> None:
    asker.ask(STORY)
    body = {
        "model": "default", "messages": [{"role": "user", "content": STORY}],
        "max_tokens": 2000, "ignore_eos": True, "stream": True,
    }  # fmt: skip
    url = f"{asker.url}/v1/chat/completions"
    with httpx.stream("POST", url, json=body, timeout=60, trust_env=False) as response:
        request_id = response.headers["x-request-id"]
        seen = 0
        for line in response.iter_lines():
            seen += line.startswith("data: ")
            if seen == 4:
                break
    deadline = time.monotonic() + 30
    while (answer := asker.explain(request_id)).status_code == 404:
        assert time.monotonic() < deadline
        time.sleep(0.1)
    told = answer.json()
    assert told["status"] == "aborted"
    assert told["verdict"] == "hit", told
    assert told["cached_tokens"] > 0


def test_the_gateway_is_well(asker: Asker) -> None:
    ready = asker.ready()
    assert ready["engine"]["kv_events"] is True
    assert [r for r in ready["reasons"] if "KV events" in r or "accounting" in r] == []
    assert "foreword_accounting_errors 0.0" in asker.metrics()
