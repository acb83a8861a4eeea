"""Request bodies are found in every common wrapping, and told apart from lines that hold none."""

import json
from typing import Any

import pytest

from cache.request_log.bodies import LoggedRequest, LogLineError, parse_line
from prompts import Message

_BODY = {"model": "m", "messages": [{"role": "user", "content": "Hello"}]}
_HELLO = (Message(role="user", content="Hello"),)


def _parsed(record: Any) -> LoggedRequest:
    return parse_line(json.dumps(record).encode())


@pytest.mark.parametrize(
    "record",
    [
        _BODY,
        {"request": _BODY},
        {"body": _BODY, "method": "POST", "url": "/v1/chat/completions", "custom_id": "1"},
        {"request": {"body": _BODY}},
        {"request": json.dumps(_BODY)},
        {"kwargs": _BODY, "response": {"choices": []}},
        {"input": "Hello"},
        {"input": [{"role": "user", "content": [{"type": "input_text", "text": "Hello"}]}]},
        {"prompt": "Hello"},
        {"messages": [{"role": "user", "content": [{"type": "text", "text": "Hello"}]}]},
    ],
)
def test_the_messages_are_found(record: Any) -> None:
    """Bare, wrapped, in a batch, as text, chat, responses or completions."""
    assert _parsed(record).messages == _HELLO


@pytest.mark.parametrize(
    "line",
    [b"{", b"[]", b"3", b'"text"', b"{}", b'{"messages": []}', b'{"messages": [3]}', b"\xff\xfe"],
)
def test_a_line_without_a_request_says_so(line: bytes) -> None:
    """Never another error."""
    with pytest.raises(LogLineError):
        parse_line(line)


def test_tool_calls_and_results_are_kept_as_they_were_sent() -> None:
    """Arguments keep their bytes; content may be null."""
    call = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": '{ "a":1}'}}
    request = _parsed(
        {
            "messages": [
                {"role": "assistant", "content": None, "tool_calls": [call]},
                {"role": "tool", "tool_call_id": "c1", "content": '{"b": 2}'},
            ]
        }
    )
    answer, result = request.messages
    assert (answer.content, answer.tool_calls[0].arguments) == ("", '{ "a":1}')
    assert (result.tool_call_id, result.content) == ("c1", '{"b": 2}')


def test_tools_keep_their_order_and_the_order_of_their_keys() -> None:
    """That is what the engine gets."""
    tools = [
        {"type": "function", "function": {"name": name, "parameters": {"b": 1, "a": 2}}}
        for name in ("z", "a")
    ]
    request = _parsed({**_BODY, "tools": tools})
    assert [tool.name for tool in request.tools] == ["z", "a"]
    assert request.tools[0].json.index('"b"') < request.tools[0].json.index('"a"')


def test_the_responses_api_with_calls_and_reasoning() -> None:
    """Items of its input become messages; instructions come first."""
    request = _parsed(
        {
            "instructions": "Be brief.",
            "input": [
                {"role": "user", "content": "Hello"},
                {"type": "reasoning", "summary": [{"type": "summary_text", "text": "hm"}]},
                {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"},
                {"type": "function_call_output", "call_id": "c", "output": "done"},
            ],
        }
    )
    assert [message.role for message in request.messages] == [
        "system", "user", "assistant", "assistant", "tool",
    ]  # fmt: skip
    assert request.messages[2].reasoning == "hm"


def test_answer_and_usage_are_read_and_unknown_is_not_zero() -> None:
    """Both chat's and responses' names of the counts."""
    answer = {"role": "assistant", "content": "Hi"}
    usage = {"prompt_tokens": 9, "prompt_tokens_details": {"cached_tokens": 0}}
    chat = _parsed(
        {"request": _BODY, "response": {"choices": [{"message": answer}], "usage": usage}}
    )
    assert (chat.output, chat.prompt_tokens, chat.cached_tokens) == (Message(**answer), 9, 0)
    item = {
        "type": "message",
        "role": "assistant",
        "content": [{"type": "output_text", "text": "Hi"}],
    }
    responses = _parsed(
        {"body": {"input": "Hello"}, "response": {"body": {"output": [item], "usage": {}}}}
    )
    assert responses.output == Message(**answer)
    assert responses.cached_tokens is None


def test_pictures_count_as_what_they_are() -> None:
    """Another picture is another prompt; the same one is the same."""

    def message(url: str) -> Message:
        part = {"type": "image_url", "image_url": {"url": url}}
        return _parsed({"messages": [{"role": "user", "content": [part]}]}).messages[0]

    assert message("a") == message("a") != message("b")


def test_developer_messages_are_system_messages_as_in_the_engine() -> None:
    """Chat templates know no developer and drop what it says, or refuse it."""
    parts = [{"type": "text", "text": "Be brief."}]
    request = _parsed(
        {
            "messages": [
                {"role": "developer", "content": "Be kind."},
                {"role": "developer", "content": parts},
            ]
        }
    )
    assert [message.role for message in request.messages] == ["system", "system"]


def test_the_bodys_own_instructions_are_told_from_its_input() -> None:
    """A later response does not take them over."""
    assert _parsed({"instructions": "Be brief.", "input": "Hello"}).instructions == 1
    assert _parsed(_BODY).instructions == 0
