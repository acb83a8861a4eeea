"""The response that a run is, and what its steps used together. Pure."""

from pathlib import Path
from typing import Any

import pytest

from app.agents.loop import RunStatus, Spent
from app.agents.request import agent_of, check_agent_request, limits_of, step_request, task_of
from app.agents.tools import ToolSpec
from app.agents.totals import step_report, summed_block, summed_usage
from app.agents.writer import RunWriter, StepForm, agent_block
from app.errors import EngineTimeoutError, InvalidRequestError
from app.responses.bodies import ResponsesRequest
from app.responses.objects import Frame
from prompts.agent import Agent, Limits

CALL = {"index": 0, "id": "c", "function": {"name": "t", "arguments": "{ }"}}


def writer(*output: dict[str, Any]) -> RunWriter:
    request = ResponsesRequest(model="default", input="Hello")
    frame = Frame(id="resp_1", model="tiny", created_at=1, request=request)
    return RunWriter(frame, output)


def part(finish: str | None = None, **delta: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}


def answered(form: StepForm, *parts: dict[str, Any]) -> list[dict[str, Any]]:
    form.begin()
    for each in parts:
        form.part(each)
    form.end()
    return form.taken()


def test_steps_follow_each_other_in_one_response() -> None:
    made = writer()
    events = list(made.begin())
    events += answered(StepForm(made), part(content="Well"), part("tool_calls", tool_calls=[CALL]))
    assert [item["type"] for item in made.step_items] == ["message", "function_call"]
    assert made.finish == "tool_calls"
    events += made.gave({"type": "function_call_output", "id": "fco", "call_id": "c"})
    events += answered(StepForm(made), part("stop", content="Done"))
    assert made.step_items[0]["content"][0]["text"] == made.text == "Done"
    events += made.end_run(RunStatus.COMPLETED, None, 9)
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    last = events[-1]
    assert (last["type"], last["response"]["completed_at"]) == ("response.completed", 9)
    kinds = [item["type"] for item in last["response"]["output"]]
    assert kinds == ["message", "function_call", "function_call_output", "message"]


@pytest.mark.parametrize("finish", ["length", "stop", "content_filter", "abort"])
def test_a_call_that_may_not_be_whole_isnt_shown_as_completed(finish: str) -> None:
    made = writer()
    other = {"index": 1, "id": "d", "function": {"name": "t", "arguments": "{}"}}
    answered(StepForm(made), part(tool_calls=[CALL]), part(tool_calls=[other]), part(finish))
    assert [item["status"] for item in made.step_items] == ["completed", "incomplete"]


def test_openais_types_have_no_reasons_of_ours() -> None:
    for reason, told in (("max_output_tokens", "max_output_tokens"), ("max_steps", None)):
        made = writer()
        [event] = made.end_run(RunStatus.INCOMPLETE, reason, 9)
        assert event["response"]["incomplete_details"] == {"reason": told}


def test_a_step_that_breaks_off_counts_as_never_said() -> None:
    made = writer({"type": "message", "id": "before", "content": []})
    form = StepForm(made)
    form.begin()
    form.part(part(content="Half an ans"))
    assert form.failed(EngineTimeoutError("http://e", "between bytes", 3)) == b""
    assert form.error is not None
    made.drop_step()
    assert [item["id"] for item in made.snapshot["output"]] == ["before"]
    events = list(made.end_failed("it broke", "engine_timeout"))
    assert [event["type"] for event in events] == ["error", "response.failed"]
    assert events[-1]["response"]["status"] == "failed"


def test_a_model_that_says_nothing_has_said_an_empty_message() -> None:
    made = writer()
    answered(StepForm(made), part("stop"))
    assert (made.text, made.step_items[0]["type"]) == ("", "message")


def test_what_one_step_doesnt_tell_makes_the_sum_unknown() -> None:
    known = step_report(
        {"completion_tokens": 3, "reasoning_tokens": 2},
        {"prompt_tokens": 10, "ideal_tokens": 8, "cached_tokens": 8, "verdict": "hit"},
    )
    assert (known["output_tokens"], known["verdict"], known["replica"]) == (3, "hit", None)
    usage = summed_usage([known, known])
    assert usage is not None
    assert (usage["input_tokens"], usage["total_tokens"]) == (20, 26)
    assert usage["input_tokens_details"] == {"cached_tokens": 16, "cache_write_tokens": 4}
    assert usage["output_tokens_details"] == {"reasoning_tokens": 4}
    unknown = summed_usage([known, known | {"cached_tokens": None}])
    assert unknown is not None
    assert unknown["input_tokens_details"]["cached_tokens"] is None
    assert summed_usage([]) is None
    assert summed_block([])["cached_tokens"] is None
    told = agent_block(
        "a", RunStatus.INTERRUPTED, Spent(steps=1, tokens=3), [{"call_id": "c"}], 1.0
    )
    assert (told["status"], told["waiting"]) == ("interrupted", [{"call_id": "c"}])


AGENT = Agent(name="a", version=1, path=Path("a.yaml"), instructions="Be kind.\n", temperature=0.5)


def request(**fields: Any) -> ResponsesRequest:
    return ResponsesRequest.model_validate({"model": "default", "input": "Hello", **fields})


def test_a_request_names_its_agent_in_one_of_two_ways() -> None:
    assert agent_of(request()) is None
    assert agent_of(request(model="agent:a")) == "a"
    assert agent_of(request(foreword={"agent": "a"})) == "a"
    assert agent_of(request(model="agent:a", foreword={"agent": "a"})) == "a"
    with pytest.raises(InvalidRequestError, match="give one"):
        agent_of(request(model="agent:a", foreword={"agent": "b"}))


@pytest.mark.parametrize(
    "fields",
    [
        {"tools": [{"type": "function", "name": "f"}]},
        {"prompt": {"id": "chat"}},
        {"foreword": {"template": "chat"}},
        {"foreword": {"mode": "rag"}},
        {"foreword": {"variables": {"x": "y"}}},
    ],
)
def test_what_the_file_says_a_request_may_not(fields: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequestError, match="an agent's file says that"):
        check_agent_request(request(**fields))


def test_a_request_lowers_limits_and_never_raises_them() -> None:
    assert limits_of(AGENT, request()) == Limits()
    less = limits_of(AGENT, request(max_output_tokens=5, max_tool_calls=2))
    assert (less.tokens, less.tool_calls, less.steps) == (5, 2, Limits().steps)
    more = limits_of(AGENT, request(max_output_tokens=10**6, max_tool_calls=10**6))
    assert more == Limits()


def test_each_step_asks_the_same_with_what_the_file_says() -> None:
    spec = ToolSpec(name="t", description="d", parameters={"type": "object"}, idempotent=True)
    given = request(
        model="agent:a",
        instructions="Be brief.",
        foreword={"agent": "a", "collection": "c", "groups": ["g"], "priority": "background"},
    )
    step = step_request(given, AGENT, (spec,))
    assert (step.model, step.instructions, step.temperature) == (
        "default", "Be kind.\n\nBe brief.", 0.5,
    )  # fmt: skip
    assert [tool.name for tool in step.functions] == ["t"]
    assert step.foreword is not None
    assert (step.foreword.agent, step.foreword.collection, step.foreword.groups) == (None, None, [])
    assert step.foreword.priority == "background"
    assert step_request(request(temperature=0), AGENT, ()).temperature == 0
    assert task_of(AGENT, "Go.") == "Be kind.\n\nGo."
