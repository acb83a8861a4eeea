"""On the real engine: shared passages are re-used, and a follow-up re-uses all before its text."""

from collections.abc import Iterator
from typing import Any

import openai
import pytest

from tests.conftest import RealEngine
from tests.gateways import gateway_settings, running_gateway, wait_until_ready

pytestmark = pytest.mark.engine

PORTS = ("Arvik", "Brenna", "Dunmore", "Holm")


@pytest.fixture(scope="module")
def client(engine: RealEngine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[openai.OpenAI]:
    home = tmp_path_factory.mktemp("home")
    with running_gateway(gateway_settings(home, engine.url, tokenizer=engine.model_path)) as url:
        wait_until_ready(url)
        with openai.OpenAI(base_url=f"{url}/v1", api_key="unused", max_retries=0) as made:
            yield made


@pytest.fixture(scope="module")
def ports(client: openai.OpenAI) -> str:
    store = client.vector_stores.create(name="ports")
    for port in PORTS:
        text = f"# {port}\n\n" + f"Tickets to {port} cost five crowns; the harbour is deep. " * 8
        file = client.files.create(file=(f"{port}.md", text.encode()), purpose="assistants")
        client.vector_stores.files.create_and_poll(file.id, vector_store_id=store.id)
    return store.id


def say(client: openai.OpenAI, messages: list[Any], **foreword: Any) -> dict[str, Any]:
    """The `foreword` block, and what the engine holds after the answer; the messages gain it."""
    answer = client.chat.completions.create(
        model="default",
        messages=messages,
        max_tokens=12,
        extra_body={"foreword": foreword, "ignore_eos": True},
    )
    messages.append({"role": "assistant", "content": answer.choices[0].message.content})
    assert answer.usage is not None
    block: dict[str, Any] = answer.foreword  # type: ignore[attr-defined]
    return block | {"held_tokens": answer.usage.total_tokens - 1}


def question(text: str) -> list[Any]:
    return [{"role": "user", "content": text}]


def test_passages_are_re_used_up_to_where_the_sets_differ(
    client: openai.OpenAI, ports: str
) -> None:
    asked: dict[str, Any] = {"collection": ports, "mode": "rag", "passages": 2}
    say(client, question("Tickets to Arvik or Brenna?"), **asked)
    same = say(client, question("Brenna, Arvik: tickets?"), **asked)
    assert same["verdict"] == "hit"
    differs = say(client, question("Tickets to Arvik or Holm?"), **asked)
    place = differs["divergence"]
    assert (place["document"], place["matched_through"]) == ("Holm.md", "Arvik.md")
    # All up to the name of the other document, less what the engine rounds off.
    assert place["token"] - 16 <= differs["cached_tokens"] <= place["token"]


@pytest.mark.parametrize("mode", ["rag", "cag"])
def test_a_follow_up_re_uses_all_before_its_own_text(
    client: openai.OpenAI, ports: str, mode: str
) -> None:
    asked = {"collection": ports, "mode": mode}
    messages = question("What do tickets to Dunmore cost?")
    before = say(client, messages, **asked)
    for text in ("And to Holm?", "Which harbour is deep?"):
        messages += question(text)
        block = say(client, messages, **asked)
        assert block["cached_tokens"] >= before["held_tokens"] - 16, (before, block)
        assert block["verdict"] == "hit", block
        before = block
