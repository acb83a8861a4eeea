"""A collection that fits the window, and a conversation that leaves it no room there."""

from typing import Any

import httpx
import openai
import pytest

from tests.gateways import add_collection

NOTES = " ".join(f"The ferry to quay {n} leaves at {n % 24}." for n in range(450))
LONG_AGO = " ".join(f"And what of quay {n}?" for n in range(330))


@pytest.fixture(scope="module")
def quays(gateway: str) -> str:
    return add_collection(gateway, "quays", NOTES)


def conversation(said: str) -> list[dict[str, str]]:
    return [
        {"role": "user", "content": said},
        {"role": "assistant", "content": "It leaves at one."},
        {"role": "user", "content": "And quay 7?"},
    ]


def ask(gateway: str, collection: str, said: str, **options: Any) -> httpx.Response:
    body = {
        "model": "default",
        "messages": conversation(said),
        "max_tokens": 4,
        "foreword": {"collection": collection, "passages": 1, **options},
    }
    return httpx.post(f"{gateway}/v1/chat/completions", json=body, trust_env=False, timeout=60)


def test_asked_for_by_name_it_is_refused_with_the_numbers(gateway: str, quays: str) -> None:
    assert ask(gateway, quays, "And quay 3?", mode="cag").status_code == 200
    refused = ask(gateway, quays, LONG_AGO, mode="cag")
    assert refused.status_code == 400
    assert "8,192" in refused.json()["error"]["message"]


def test_a_pinned_collection_is_answered_by_retrieval_instead(
    gateway: str, client: openai.OpenAI, quays: str
) -> None:
    client.vector_stores.update(quays, extra_body={"foreword": {"mode": "cag"}})
    try:
        assert ask(gateway, quays, "And quay 4?").json()["foreword"]["mode"] == "cag"
        answer = ask(gateway, quays, LONG_AGO)
    finally:
        client.vector_stores.update(quays, extra_body={"foreword": {"mode": "auto"}})
    assert answer.status_code == 200, answer.text
    block = answer.json()["foreword"]
    assert block["mode"] == "rag"
    assert "don't fit the model's window together" in block["mode_reason"]
    assert block["prompt_tokens"] <= 8192


def test_auto_counts_what_was_said_and_the_answers_room(gateway: str, quays: str) -> None:
    short = ask(gateway, quays, "And quay 5?", mode="auto").json()["foreword"]
    assert short["mode_costs"]["cag"]["possible"], short["mode_costs"]["cag"]
    asked = ask(gateway, quays, LONG_AGO, mode="auto").json()["foreword"]
    assert not asked["mode_costs"]["cag"]["possible"]
    assert asked["mode"] == "rag"
