"""A corpus in the real SGLang and LMCache: two users share it, and the tiers give it back."""

import time
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import openai
import pytest

from app.settings import CorporaSettings, TiersSettings
from tests.app.corpora.conftest import long_text
from tests.app.corpora.test_routes import asked, collection, warmed
from tests.conftest import RealEngine
from tests.engines import flush, stored, wait_until_heard
from tests.gateways import gateway_settings, running_gateway, wait_until_ready

pytestmark = pytest.mark.engine


@pytest.fixture(scope="module")
def url(engine: RealEngine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    settings = gateway_settings(
        tmp_path_factory.mktemp("home"), engine.url, tokenizer=engine.model_path
    ).model_copy(
        update={
            "tiers": TiersSettings(url=engine.stack.tier_url),
            "corpora": CorporaSettings(step_tokens=512, watch_s=0.2),
        }
    )
    with running_gateway(settings) as made:
        wait_until_ready(made)
        wait_until_heard(engine, made)
        yield made


def until(true: Callable[[], bool], *, within_s: float = 60) -> None:
    deadline = time.monotonic() + within_s
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def test_two_users_share_the_corpus_and_the_tiers_give_it_back(
    url: str, engine: RealEngine
) -> None:
    with (
        httpx.Client(base_url=url, trust_env=False, timeout=60) as http,
        openai.OpenAI(base_url=f"{url}/v1", api_key="unused", max_retries=0) as sdk,
    ):
        with stored(engine.stack.tier_url):
            collection(sdk, "ferry", long_text("The ferry leaves at nine", 150))
            found = warmed(http, "ferry")["corpus"]
        tokens: int = found["tokens"]
        assert found["resident"], found
        for question in ("When does it leave?", "Which ferry is the last one?"):
            block = asked(sdk, "ferry", question)
            assert block["cached_tokens"] >= 0.99 * tokens, (block, found)
            assert block["cached_tokens"] >= tokens, (block, found)
            assert block["verdict"] == "hit", block

        def corpus() -> dict[str, Any]:
            told: dict[str, Any] = http.get("/foreword/collections/ferry").json()["corpus"]
            return told

        until(lambda: corpus()["resident_tokens"] == tokens)
        flush(engine.url)
        until(lambda: (corpus()["warm_loaded_tokens"] or 0) > 0)
        again = corpus()
        assert again["resident"], again
        assert again["warm_loaded_tokens"] >= 0.9 * tokens, again
        block = asked(sdk, "ferry", "And after that?")
        assert block["cached_by_tier"]["gpu"] >= tokens, block
