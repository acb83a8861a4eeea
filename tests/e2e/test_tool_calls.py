"""Calls of tools on the default local stack, whose model never learnt any: those that a request
demands come, whole and streaming, and an agent can be seen calling its tools.

On the real SGLang and SmolLM2.
"""

import json
from collections.abc import Mapping
from typing import Any

import openai
import pytest

from tests.app.openai_objects import exact
from tests.e2e.conftest import UserStack

pytestmark = [pytest.mark.engine, pytest.mark.timeout(900)]

QUESTION = "What is the weather in Paris? And what time is it there?"
CITY = {"city": {"type": "string", "maxLength": 20}}
ZONE = {"zone": {"type": "string", "enum": ["Europe/Paris", "Asia/Tokyo"]}}


def function(name: str, properties: Mapping[str, object]) -> dict[str, Any]:
    parameters = {"type": "object", "properties": properties, "required": list(properties)}
    return {"name": name, "parameters": {**parameters, "additionalProperties": False}}


FUNCTIONS = [function("get_weather", CITY), function("get_time", ZONE)]
TOOLS: list[Any] = [{"type": "function", "function": each} for each in FUNCTIONS]
NAMED: Any = {"type": "function", "function": {"name": "get_time"}}
# What the model says is drawn: often enough it would fill JSON with white space, if it could.
DEMANDS: dict[str, dict[str, Any]] = {
    "any": {"tool_choice": "required", "temperature": 1},
    "named": {"tool_choice": NAMED, "temperature": 1},
    "one": {"tool_choice": "required", "parallel_tool_calls": False, "temperature": 0},
}
demands = pytest.mark.parametrize("fields", DEMANDS.values(), ids=DEMANDS)


def ask(sdk: openai.OpenAI, fields: Mapping[str, Any], **more: Any) -> Any:
    messages = [{"role": "user", "content": QUESTION}]
    return sdk.chat.completions.create(
        model="default", messages=messages, tools=TOOLS, max_tokens=1000, **fields, **more
    )  # type: ignore[call-overload]


def assert_called(calls: list[tuple[str, str]], fields: Mapping[str, Any]) -> None:
    """Each a function of the request's, with the arguments that it takes."""
    assert calls
    for name, given in calls:
        assert json.loads(given).keys() == {"city" if name == "get_weather" else "zone"}
    if fields["tool_choice"] == NAMED:
        assert {name for name, _ in calls} == {"get_time"}
    if fields.get("parallel_tool_calls") is False:
        assert len(calls) == 1


@demands
def test_a_call_that_must_come_comes(sdk: openai.OpenAI, fields: dict[str, Any]) -> None:
    [choice] = exact(ask(sdk, fields)).choices
    assert choice.finish_reason == "tool_calls"
    assert not choice.message.content
    called = [(c.function.name, c.function.arguments) for c in choice.message.tool_calls]
    assert_called(called, fields)


@demands
def test_a_call_that_must_come_comes_in_a_stream(
    sdk: openai.OpenAI, fields: dict[str, Any]
) -> None:
    text, ends = "", []
    calls: dict[int, list[str]] = {}
    ids: dict[int, str] = {}
    for chunk in ask(sdk, fields, stream=True):
        for choice in exact(chunk).choices:
            text += choice.delta.content or ""
            ends += [choice.finish_reason] if choice.finish_reason else []
            for part in choice.delta.tool_calls or ():
                call = calls.setdefault(part.index, ["", ""])
                call[0] += part.function.name or ""
                call[1] += part.function.arguments or ""
                ids[part.index] = ids.get(part.index, "") + (part.id or "")
    assert (text, ends) == ("", ["tool_calls"])
    assert all(ids.values())
    assert_called([(name, given) for name, given in calls.values()], fields)


def test_a_response_tells_of_them_by_its_events(sdk: openai.OpenAI) -> None:
    tools: list[Any] = [{"type": "function", "strict": None, **each} for each in FUNCTIONS]
    events: list[Any] = list(
        sdk.responses.create(
            model="default", input=QUESTION, tools=tools, tool_choice="required", stream=True,
            parallel_tool_calls=False, max_output_tokens=1000, temperature=0,
        )
    )  # fmt: skip
    pieces = [e.delta for e in events if e.type == "response.function_call_arguments.delta"]
    [done] = [e for e in events if e.type == "response.function_call_arguments.done"]
    assert "".join(pieces) == done.arguments
    [call] = events[-1].response.output
    assert (events[-1].type, call.type) == ("response.completed", "function_call")
    assert_called([(call.name, call.arguments)], {"tool_choice": "required"})


def test_where_the_model_may_choose_it_answers_in_words(sdk: openai.OpenAI) -> None:
    [choice] = ask(sdk, {"temperature": 0}, stream=False).choices
    assert choice.message.content
    assert not choice.message.tool_calls


def test_an_agent_searches_once_and_answers(sdk: openai.OpenAI, user_stack: UserStack) -> None:
    """As docs/agents.md shows it."""
    made = user_stack.run("foreword ingest ferry samples/ferry")
    assert made.returncode == 0, made.stderr
    answer: Any = sdk.responses.create(
        model="agent:researcher", input="What does a dog pay on the ferry?", tool_choice="required",
        max_tool_calls=1, parallel_tool_calls=False, temperature=0, max_output_tokens=300,
        extra_body={"foreword": {"collection": "ferry"}},
    )  # fmt: skip
    assert [item.type for item in answer.output] == [
        "function_call",
        "function_call_output",
        "message",
    ]
    assert answer.output[1].output.startswith("[")  # passages, each under its document's name
