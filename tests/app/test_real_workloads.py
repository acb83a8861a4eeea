"""On the real engine: what is asked in the background, again, or with other tools re-uses what is
held."""

import time
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import openai
import pytest

from app.settings import ResponseCacheSettings
from tests.app.responses.background.asking import asked, ended
from tests.app.stored.test_conversations_api import ask
from tests.conftest import RealEngine
from tests.gateways import gateway_settings, running_gateway, wait_until_ready

pytestmark = pytest.mark.engine

PAGE_TOKENS = 16
RULES = "The ferry leaves at nine, at noon and at six, and takes two hours to the island. " * 12
WHO = {
    "type": "object",
    "properties": {"who": {"type": "string", "enum": ["child", "adult"]}},
    "required": ["who"],
    "additionalProperties": False,
}


@pytest.fixture(scope="module")
def gateway(engine: RealEngine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Its home, and so its salts, are nobody else's."""
    home = tmp_path_factory.mktemp("home")
    settings = gateway_settings(home, engine.url, tokenizer=engine.model_path)
    on = {"response_cache": ResponseCacheSettings(enabled=True)}
    with running_gateway(settings.model_copy(update=on)) as url:
        wait_until_ready(url)
        yield url


@pytest.fixture
def client(gateway: str) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{gateway}/v1", api_key="unused", max_retries=0) as made:
        yield made


def held(response: Any) -> int:
    """What the engine can give to whoever goes on: all but the last token, which was never an
    input; then whole pages."""
    return int((response.usage.total_tokens - 1) // PAGE_TOKENS * PAGE_TOKENS)


def test_a_response_of_the_background_re_uses_what_it_goes_on_from(client: openai.OpenAI) -> None:
    usual: Any = {"temperature": 0, "extra_body": {"ignore_eos": True}}
    first: Any = ended(client, asked(client, RULES + "When is the last one?", **usual))
    assert first.status == "incomplete", first.error
    usual["previous_response_id"] = first.id
    then: Any = ended(client, asked(client, "And the first?", **usual))
    assert then.usage.input_tokens > first.usage.total_tokens > 200
    assert held(first) <= then.usage.input_tokens_details.cached_tokens < then.usage.input_tokens
    assert then.foreword["cached_tokens"] == then.usage.input_tokens_details.cached_tokens


def test_an_answer_that_is_given_again_is_no_re_use(client: openai.OpenAI, gateway: str) -> None:
    first = chat(client)
    wait_until(lambda: look(gateway, "response-cache").json()["answers"] > 0)
    given = look(gateway, "report").json()["response_cache"]["answers"]
    again = chat(client)
    assert again.choices[0].message.content == first.choices[0].message.content
    assert again.foreword["response_cache"]["request_id"] == first.id
    assert again.foreword["cached_tokens"] is None
    anew = chat(client, extra_headers={"cache-control": "no-cache"})
    assert anew.foreword.get("response_cache") is None
    # The prompt's last token is always computed; then whole pages.
    least = (anew.usage.prompt_tokens - 1) // PAGE_TOKENS * PAGE_TOKENS
    assert anew.usage.prompt_tokens_details.cached_tokens >= least > 200
    wait_until(lambda: look(gateway, f"explain/{anew.id}").status_code == 200)
    assert look(gateway, f"explain/{again.id}").status_code == 404, "the ledger has no such row"
    wait_until(lambda: look(gateway, "report").json()["response_cache"]["answers"] == given + 1)


def test_tools_that_change_in_a_conversation_leave_its_prefix(client: openai.OpenAI) -> None:
    talk = client.conversations.create()
    before, told = 0, []
    for number, names in enumerate((["price"], ["price", "age"], ["age"], ["age"])):
        answer = ask(
            client,
            f"{RULES if number == 0 else ''} Question {number}: what do I pay?",
            conversation=talk.id,
            tools=[{"type": "function", "name": n, "parameters": WHO} for n in names],
        )
        told.append((answer.foreword.get("tools") or {}).get("done"))
        assert answer.foreword["cached_tokens"] >= before
        before = held(answer)
    assert told == [None, "appended", "appended", None]
    assert before > 200


def chat(client: openai.OpenAI, **more: Any) -> Any:
    messages: list[Any] = [{"role": "user", "content": RULES + "What is a ferry?"}]
    return client.chat.completions.create(
        model="default", messages=messages, temperature=0, max_tokens=12, **more
    )


def look(url: str, what: str) -> httpx.Response:
    return httpx.get(f"{url}/foreword/{what}", trust_env=False, timeout=60)


def wait_until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.05)
