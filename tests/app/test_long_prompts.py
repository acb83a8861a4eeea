"""A prompt that is longer than the window by far is refused on every way in, and not encoded."""

import re
from typing import Any

import httpx
import pytest

from tests.gateways import add_collection

WORDS = "The ferry leaves at nine. " * 40_000
MORE = "more than 8192 tokens"
CHAT = "/v1/chat/completions"
RESPONSES = "/v1/responses"
TOOL: dict[str, Any] = {"type": "function", "function": {"name": "sail", "description": WORDS}}


def user(text: str) -> list[dict[str, Any]]:
    return [{"role": "user", "content": text}]


def ask(gateway: str, path: str, **body: Any) -> httpx.Response:
    body = {"model": "default", **body}
    return httpx.post(f"{gateway}{path}", json=body, trust_env=False, timeout=60)


def refusal(answer: httpx.Response) -> Any:
    error = answer.json()["error"]
    assert answer.status_code == 400, error
    assert error["code"] == "context_length_exceeded"
    return error


WAYS_IN: dict[str, tuple[str, dict[str, Any], str]] = {
    "one message": (CHAT, {"messages": user(WORDS)}, "messages"),
    "one word": (CHAT, {"messages": user("a" * 2**20)}, "messages"),
    "blanks": (CHAT, {"messages": user(f"{' ' * 2**20}x")}, "messages"),
    "a stream": (CHAT, {"messages": user(WORDS), "stream": True}, "messages"),
    "many messages": (
        CHAT,
        {"messages": [*user("Now?"), {"role": "assistant", "content": "No."}] * 2_000 + user("?")},
        "messages",
    ),
    "instructions": (
        CHAT,
        {"messages": [{"role": "system", "content": WORDS}, *user("Now?")]},
        "messages",
    ),
    "a tool": (CHAT, {"messages": user("Now?"), "tools": [TOOL]}, "messages"),
    "many tools": (
        CHAT,
        {
            "messages": user("Now?"),
            "tools": [{"type": "function", "function": {"name": f"t{n}"}} for n in range(2_000)],
        },
        "messages",
    ),
    "a call's arguments": (
        CHAT,
        {
            "messages": [
                *user("Now?"),
                {
                    "role": "assistant",
                    "content": None,
                    "tool_calls": [
                        {
                            "id": "call_1",
                            "type": "function",
                            "function": {"name": "sail", "arguments": f'{{"to": "{WORDS}"}}'},
                        }
                    ],
                },
                {"role": "tool", "tool_call_id": "call_1", "content": "done"},
            ]
        },
        "messages",
    ),
    "a text": ("/v1/completions", {"prompt": WORDS}, "prompt"),
    "a text of control tokens": ("/v1/completions", {"prompt": "<|im_end|>" * 40_000}, "prompt"),
    "a response": (RESPONSES, {"input": WORDS}, "input"),
    "a response's instructions": (RESPONSES, {"input": "?", "instructions": WORDS}, "input"),
    "counting": (f"{RESPONSES}/input_tokens", {"input": WORDS}, "input"),
}


@pytest.mark.parametrize("way", WAYS_IN)
def test_it_is_refused_and_not_counted_to_its_end(gateway: str, way: str) -> None:
    path, body, param = WAYS_IN[way]
    error = refusal(ask(gateway, path, **body))
    assert MORE in error["message"]
    assert error["param"] == param


def test_a_response_that_goes_on_is_refused_by_its_own_name(gateway: str) -> None:
    first = ask(gateway, RESPONSES, input="Now?", max_output_tokens=4).json()
    error = refusal(ask(gateway, RESPONSES, input=WORDS, previous_response_id=first["id"]))
    assert f"{first['id']} goes on from" in error["message"]
    assert "makes a prompt of more than 8,192 tokens" in error["message"]


@pytest.mark.parametrize("mode", ["rag", "cag", "auto"])
def test_a_question_to_a_collection_is_refused_before_it_is_searched_for(
    gateway: str, mode: str
) -> None:
    collection = add_collection(gateway, f"quays-{mode}", "The ferry to quay 3 leaves at nine.")
    asked = {"collection": collection, "mode": mode}
    error = refusal(ask(gateway, CHAT, messages=user(WORDS), foreword=asked))
    assert MORE in error["message"]


def test_one_that_is_a_little_too_long_is_told_by_how_much(gateway: str) -> None:
    error = refusal(ask(gateway, CHAT, messages=user("a?" * 5_000), max_tokens=4))
    assert re.match(r"the prompt has 100\d\d tokens", error["message"])


def test_short_requests_are_answered_after_it(gateway: str) -> None:
    refusal(ask(gateway, CHAT, messages=user(WORDS)))
    assert ask(gateway, CHAT, messages=user("Now?"), max_tokens=4).status_code == 200
