"""On the real engine: twenty turns of a stored conversation re-use all but what is new."""

from pathlib import Path
from typing import Any

import httpx
import openai
import pytest

from tests.app.stored.test_conversations_api import ask
from tests.conftest import RealEngine
from tests.gateways import gateway_settings, running_gateway, wait_until_ready

pytestmark = pytest.mark.engine

PAGE_TOKENS = 16


def counted(engine: RealEngine, name: str) -> float:
    """The engine's own counter, over all its labels."""
    text = httpx.get(f"{engine.url}/metrics", trust_env=False).text
    lines = [line for line in text.splitlines() if line.startswith(f"sglang:{name}")]
    return sum(float(line.rsplit(" ", 1)[1]) for line in lines)


def written(url: str, request_id: str) -> Any:
    """What the ledger has of a request."""
    return httpx.get(f"{url}/foreword/explain/{request_id}", trust_env=False).json()


def test_twenty_turns_re_use_what_is_held_also_after_a_restart(
    engine: RealEngine, tmp_path: Path
) -> None:
    settings = gateway_settings(tmp_path, engine.url, tokenizer=engine.model_path)
    ideal = cached = by_ledger = before = 0
    by_engine, talk = 0.0, ""
    for turns in (range(14), range(14, 20)):
        with running_gateway(settings) as url:
            wait_until_ready(url)
            with openai.OpenAI(base_url=f"{url}/v1", api_key="x", max_retries=0) as client:
                talk = talk or client.conversations.create().id
                counted_before = counted(engine, "cached_tokens_total")
                for number in turns:
                    answer = ask(client, f"Port {number}, is it deep?", conversation=talk)
                    # The answer's last token was never an input; then whole pages.
                    ideal += max(before - 1, 0) // PAGE_TOKENS * PAGE_TOKENS
                    cached += answer.foreword["cached_tokens"]
                    row = written(url, answer.id)
                    assert row["cached_tokens"] == answer.foreword["cached_tokens"]
                    by_ledger += row["cached_tokens"]
                    before = answer.usage.total_tokens
                by_engine += counted(engine, "cached_tokens_total") - counted_before
    assert cached >= 0.99 * ideal > 0
    # What the client was told, the ledger, and the engine's own counter, which others may raise.
    assert cached == by_ledger <= by_engine
