"""Calls that aren't whole, and arguments that are no JSON: the run goes on, and so do others."""

import json
from typing import Any

import openai
import pytest

from bench.engine_sim import CallConfig
from tests.app.agents.conftest import Harbour, Opens
from tests.app.agents.notes import calls
from tests.app.agents.test_runs import ask

# In whose text the token limit of a step comes; its arguments are whole all the same, as an engine
# closes them.
STORY = CallConfig(
    text="\nwrite once upon a time " + "and then " * 60,
    name="write",
    arguments='{"line": "once upon a time"}',
)
BRIEF = """
name: writer
version: 1
instructions: Be short.
tools: [{mcp: notes}]
limits: {step: {tokens: 24}}
"""


def odd(name: str, arguments: str) -> tuple[CallConfig, ...]:
    """A step in which the model calls a tool with what it takes for arguments."""
    return (CallConfig(text=f"\n{name} {arguments} ", name=name, arguments=arguments),)


def results(answer: Any) -> list[Any]:
    return [item for item in answer.output if item.type == "function_call_output"]


def test_a_call_that_the_token_limit_came_in_is_told_and_not_made(harbour: Opens) -> None:
    script = ((STORY,), calls(("write", "two")))
    with harbour(script, BRIEF) as here:
        answer = ask(here)
        runs = here.http.get(f"/foreword/agents/runs/{answer.id}").json()
    assert here.lines == ['write {"line": "two"}']
    first = answer.output[0]
    assert (first.type, first.status) == ("function_call", "incomplete")
    assert json.loads(first.arguments) == {"line": "once upon a time"}
    told, _ = results(answer)
    assert told.output.startswith("not called: the answer ended after 24 tokens, within this call")
    assert [call["attempts"] for call in runs["calls"]] == [0, 1]
    # What follows is a step like any other.
    assert answer.foreword["steps"][1]["verdict"] == "hit"


def test_the_calls_before_it_are_made(harbour: Opens) -> None:
    with harbour(((*calls(("write", "one")), STORY),), BRIEF) as here:
        answer = ask(here)
    assert here.lines == ['write {"line": "one"}']
    made, told = results(answer)
    assert made.output.startswith("write did")
    assert told.output.startswith("not called")


def test_where_the_run_has_no_tokens_left_either_it_is_incomplete(harbour: Opens) -> None:
    with harbour(((STORY,),)) as here:
        answer = ask(here, max_output_tokens=24)
        # Its call has a result, so that it can be gone on from.
        after = ask(here, previous_response_id=answer.id, input="Go on.")
    assert (answer.status, answer.incomplete_details.reason) == ("incomplete", "max_output_tokens")
    assert here.lines == []
    assert "not called" in results(answer)[0].output
    assert after.status == "completed"


@pytest.mark.parametrize("written", ["not json", '{"te', "[]", "null", ""])
def test_arguments_that_are_no_object_end_no_run(harbour: Opens, written: str) -> None:
    with harbour((odd("look", written), calls(("look", "two")))) as here:
        talk = here.client.conversations.create()
        answer = ask(here, conversation=talk.id)
        # Nor does it poison the conversation.
        after = ask(here, conversation=talk.id, input="And then?")
        plain = here.client.responses.create(
            model="default", conversation=talk.id, input="In words?"
        )
    assert [item.type for item in answer.output] == [
        "function_call", "function_call_output", "function_call", "function_call_output", "message",
    ]  # fmt: skip
    assert answer.output[0].arguments == written
    assert {answer.status, after.status, plain.status} == {"completed"}
    # The model's own ids stand in the prompts after it.
    assert all(step["verdict"] == "hit" for step in answer.foreword["steps"][1:])
    assert [step["verdict"] for step in after.foreword["steps"]] == ["hit"]


def test_a_clients_own_function_can_be_called_so_too(harbour: Opens) -> None:
    """Its result, a plain question and another list of tools: each turn is answered."""
    tool = {"type": "function", "name": "f", "parameters": {"type": "object"}}
    with harbour((odd("f", '{"te'),)) as here:
        talk = here.client.conversations.create()
        given: dict[str, Any] = {"model": "default", "conversation": talk.id}
        called: Any = here.client.responses.create(**given, input="Call f.", tools=[tool])
        [call] = called.output
        result = {"type": "function_call_output", "call_id": call.call_id, "output": "no JSON"}
        turns = [
            here.client.responses.create(**given, input=[result], tools=[tool]),
            here.client.responses.create(**given, input="So?"),
            here.client.responses.create(**given, input="And?", tools=[{**tool, "name": "g"}]),
        ]
    assert call.arguments == '{"te'
    assert [turn.status for turn in turns] == ["completed"] * 3


@pytest.mark.parametrize("written", ["{bad", "", "[]", "null"])
def test_a_conversation_that_begins_with_one_is_answered(plain: Harbour, written: str) -> None:
    items: Any = [
        {"type": "message", "role": "user", "content": "Call f."},
        {"type": "function_call", "call_id": "c1", "name": "f", "arguments": written},
        {"type": "function_call_output", "call_id": "c1", "output": "done"},
    ]
    talk = plain.client.conversations.create(items=items)
    answer = plain.client.responses.create(model="default", conversation=talk.id, input="So?")
    assert answer.status == "completed"


def test_a_search_without_a_query_says_so(harbour: Opens) -> None:
    with harbour((odd("search", "not json"),), SEARCHES) as here:
        answer = ask(here, model="agent:finder")
    [told] = results(answer)
    assert told.status == "incomplete"
    assert answer.status == "completed"


SEARCHES = """
name: finder
version: 1
instructions: Search.
tools: [search]
"""


def test_what_names_no_collection_of_the_tenants_is_refused_before_anything_runs(
    harbour: Opens,
) -> None:
    with harbour((), SEARCHES) as here:
        talk = here.client.conversations.create()
        for more in ({}, {"background": True}, {"stream": True}):
            with pytest.raises(openai.NotFoundError, match="nope") as caught:
                ask(
                    here,
                    model="agent:finder",
                    conversation=talk.id,
                    extra_body={"foreword": {"collection": "nope"}},
                    **more,
                )
            assert caught.value.code == "collection_not_found"
        assert here.http.get("/foreword/agents/runs").json()["data"] == []
        # Nobody has the conversation.
        assert ask(here, model="agent:finder", conversation=talk.id).status == "completed"
