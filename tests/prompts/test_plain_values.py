"""Values as JSON has them become those that templates take, or say how they should look."""

import json
from decimal import Decimal
from typing import Any

import pytest

from prompts import Message, PromptDocument, ToolCall, Variable, VariableType, Volatility
from prompts.plain_values import plain_message, plain_value


def variable(kind: VariableType) -> Variable:
    return Variable(name="given", type=kind, volatility=Volatility.TURN)


def test_documents_and_messages_are_made_of_objects() -> None:
    document = {"name": "a.txt", "text": "A"}
    assert plain_value(variable(VariableType.DOCUMENTS), [document]) == [PromptDocument(**document)]
    message = {"role": "user", "content": "Hi"}
    assert plain_value(variable(VariableType.MESSAGES), (message,)) == [Message(**message)]


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (VariableType.TEXT, "a"),
        (VariableType.INTEGER, 3),
        (VariableType.NUMBER, Decimal("1.10")),
        (VariableType.DATE, "2026-11-30"),
        (VariableType.TOOLS, [{"function": {"name": "search"}}]),
        (VariableType.JSON, {"b": [1]}),
    ],
)
def test_the_rest_is_taken_as_it_is(kind: VariableType, value: Any) -> None:
    assert plain_value(variable(kind), value) is value


def test_arguments_stay_byte_for_byte() -> None:
    arguments = '{"q" : "caf\\u00e9", "n":1.0}'
    call = {"id": "c1", "type": "function", "function": {"name": "find", "arguments": arguments}}
    message = plain_message({"role": "assistant", "content": None, "tool_calls": [call]})
    assert message == Message(
        role="assistant",
        content="",
        tool_calls=(ToolCall(id="c1", name="find", arguments=arguments),),
    )


def test_arguments_that_are_no_text_yet_become_json() -> None:
    call = {"id": "c1", "function": {"name": "find", "arguments": {"b": 1, "a": 2}}}
    (made,) = plain_message({"role": "assistant", "tool_calls": [call]}).tool_calls
    assert json.loads(made.arguments) == {"b": 1, "a": 2}


def test_the_parts_of_a_message_are_joined() -> None:
    parts = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    assert plain_message({"role": "user", "content": parts}).content == "ab"


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("Hi", "object with role and content"),
        ({"content": "Hi"}, "'role' must be text, not NoneType"),
        ({"role": "user", "content": 3}, "content is text"),
        ({"role": "user", "content": [{"type": "image_url"}]}, "'text' must be text"),
        ({"role": "user", "content": ["a"]}, "'text' must be text"),
        ({"role": "user", "name": 3}, "'name' must be text, not int"),
        ({"role": "assistant", "tool_calls": [{"id": "c1"}]}, "a tool call is an object"),
        ({"role": "assistant", "tool_calls": 3}, "must be a list of tool calls"),
    ],
)
def test_a_message_of_another_shape_is_refused(value: object, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        plain_message(value)


@pytest.mark.parametrize("kind", [VariableType.DOCUMENTS, VariableType.MESSAGES])
@pytest.mark.parametrize("value", ["text", {"a": 1}, 3, None, [3], [{}]])
def test_a_list_of_objects_is_asked_for(kind: VariableType, value: object) -> None:
    with pytest.raises(ValueError, match=r"must be|is an object"):
        plain_value(variable(kind), value)
