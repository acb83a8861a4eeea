"""Items of a Responses request become the messages that the model saw or will see."""

from typing import Any

import pytest

from app.errors import InvalidRequestError
from app.responses.input_items import check_calls, messages_of

CALL = {"type": "function_call", "call_id": "c1", "name": "now", "arguments": '{"zone": "UTC"}'}
RESULT = {"type": "function_call_output", "call_id": "c1", "output": "nine"}


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def called(**call: str) -> dict[str, Any]:
    function = {"name": call["name"], "arguments": call["arguments"]}
    return {"id": call["call_id"], "type": "function", "function": function}


def test_a_text_is_the_users_message() -> None:
    assert messages_of("When?") == [user("When?")]
    assert messages_of("") == messages_of([]) == []


def test_messages_with_parts_and_without_a_type() -> None:
    parts = [{"type": "input_text", "text": "When "}, {"type": "input_text", "text": "now?"}]
    said = [{"type": "output_text", "text": "Nine.", "annotations": [], "logprobs": []}]
    assert messages_of([
        {"role": "developer", "content": "Be brief."},
        {"type": "message", "role": "user", "content": parts},
        {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed",
         "content": said},
    ]) == [
        {"role": "developer", "content": "Be brief."},
        user("When now?"),
        {"role": "assistant", "content": "Nine."},
    ]  # fmt: skip


def test_a_call_belongs_to_the_turn_before_it() -> None:
    other = CALL | {"call_id": "c2"}
    items = [user("When?"), {"role": "assistant", "content": "I look."}, CALL, other, RESULT, CALL]
    assert messages_of(items) == [
        user("When?"),
        {
            "role": "assistant",
            "content": "I look.",
            "tool_calls": [called(**_texts(CALL)), called(**_texts(other))],
        },
        {"role": "tool", "tool_call_id": "c1", "content": "nine"},
        {"role": "assistant", "content": None, "tool_calls": [called(**_texts(CALL))]},
    ]


def test_a_search_is_left_out_and_reasoning_goes_to_its_message() -> None:
    thought = {"type": "reasoning_text", "text": "It is nine."}
    assert messages_of([
        user("When?"),
        {"type": "file_search_call", "id": "fs_1", "queries": [], "status": "completed"},
        {"type": "reasoning", "id": "rs_1", "summary": [], "content": [thought]},
        {"role": "assistant", "content": "Nine."},
        user("And then?"),
    ]) == [
        user("When?"),
        {"role": "assistant", "content": "Nine.", "reasoning_content": "It is nine."},
        user("And then?"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("item", "param", "words"),
    [
        ({"role": "wizard", "content": "x"}, "input.0.role", "none of user"),
        ({"role": "user", "content": 3}, "input.0.content", "text or a list"),
        ({"role": "user", "content": [3]}, "input.0.content.0", "type and text"),
        (
            {"role": "user", "content": [{"type": "input_file", "file_id": "file-1"}]},
            "input.0.content.0",
            "file_search",
        ),
        ({"role": "user", "content": [{"type": "input_image"}]}, "input.0.content.0", "text only"),
        ({"type": "item_reference", "id": "msg_1"}, "input.0", "send the item itself"),
        ({"type": "computer_call"}, "input.0", "'computer_call'"),
        ({}, "input.0", "a type, or a role and content"),
        ({"role": "user"}, "input.0.content", "text or a list"),
        ({"type": "message"}, "input.0.role", "none of user"),
        ({"type": "story", "role": "user", "content": "x"}, "input.0", "'story'"),
        (CALL | {"arguments": {}}, "input.0.arguments", "must be text"),
        ({"type": "function_call_output", "call_id": "c1"}, "input.0.output", "must be text"),
    ],
)
def test_what_can_not_be_taken_is_named(item: dict[str, Any], param: str, words: str) -> None:
    with pytest.raises(InvalidRequestError, match=words) as caught:
        messages_of([item])
    assert caught.value.param == param


def result(call_id: str) -> dict[str, Any]:
    return {"type": "function_call_output", "call_id": call_id, "output": "9"}


@pytest.mark.parametrize(
    ("items", "words"),
    [
        ([user("x"), result("c9")], "No tool call found for function call output with call_id c9"),
        ([result("c1"), CALL], "No tool call found for function call output with call_id c1"),
        ([user("x"), CALL], "No tool output found for function call c1"),
        ([user("x"), CALL, user("y")], "No tool output found for function call c1"),
        ([user("x"), CALL, CALL | {"call_id": "c2"}, result("c2")], "for function call c1"),
    ],
)
def test_calls_and_their_results_come_together(items: list[dict[str, Any]], words: str) -> None:
    with pytest.raises(InvalidRequestError, match=words) as caught:
        check_calls(messages_of(items))
    assert caught.value.param == "input"


def test_results_may_come_in_any_order() -> None:
    other = CALL | {"call_id": "c2"}
    check_calls(messages_of([user("x"), CALL, other, result("c2"), result("c1"), user("y")]))


def _texts(item: dict[str, Any]) -> dict[str, str]:
    return {name: value for name, value in item.items() if name != "type"}
