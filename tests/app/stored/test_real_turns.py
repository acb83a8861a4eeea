"""On the real engine: twenty turns of a stored conversation re-use all but what is new."""

from pathlib import Path

import openai
import pytest

from tests.app.stored.test_conversations_api import ask
from tests.conftest import RealEngine
from tests.gateways import gateway_settings, running_gateway, wait_until_ready

pytestmark = pytest.mark.engine

PAGE_TOKENS = 16


def test_twenty_turns_re_use_what_is_held_also_after_a_restart(
    engine: RealEngine, tmp_path: Path
) -> None:
    settings = gateway_settings(tmp_path, engine.url, tokenizer=engine.model_path)
    ideal = cached = before = 0
    talk = ""
    for turns in (range(14), range(14, 20)):
        with running_gateway(settings) as url:
            wait_until_ready(url)
            with openai.OpenAI(base_url=f"{url}/v1", api_key="x", max_retries=0) as client:
                talk = talk or client.conversations.create().id
                for number in turns:
                    answer = ask(client, f"Port {number}, is it deep?", conversation=talk)
                    if number:
                        # The answer's last token was never an input; then whole pages.
                        ideal += (before - 1) // PAGE_TOKENS * PAGE_TOKENS
                        cached += answer.foreword["cached_tokens"]
                    before = answer.usage.total_tokens
    assert cached >= 0.99 * ideal > 0
