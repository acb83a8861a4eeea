"""Runs of agents through the unmodified OpenAI SDK, before an engine that calls tools by script."""

import time
from itertools import pairwise
from typing import Any

import openai
import pytest

from bench.engine_sim import CallConfig
from tests.app.agents.conftest import Harbour, Opens
from tests.app.agents.notes import AGENT, calls

PATIENCE_S = 60.0

TWELVE = tuple(calls(("write", f"line {number}")) for number in range(11))


def ask(harbour: Harbour, **fields: Any) -> Any:
    given = {"model": "agent:writer", "input": "Write eleven lines."} | fields
    return harbour.client.responses.create(**given)


def test_a_run_of_twelve_steps_re_uses_all_but_what_is_new(harbour: Opens) -> None:
    with harbour(TWELVE) as here:
        answer = ask(here)
    assert answer.status == "completed", answer
    kinds = [item.type for item in answer.output]
    assert kinds == ["function_call", "function_call_output"] * 11 + ["message"]
    assert here.lines == [f'write {{"line": "line {number}"}}' for number in range(11)]
    steps = answer.foreword["steps"]
    assert len(steps) == 12
    for step in steps[1:]:
        assert step["verdict"] == "hit", step
    ideal = sum(step["ideal_tokens"] for step in steps[1:])
    assert sum(step["cached_tokens"] for step in steps[1:]) >= 0.99 * ideal > 0
    # Each prompt begins with the one before it, and the answer to that.
    for before, after in pairwise(steps):
        held = before["prompt_tokens"] + before["output_tokens"] - 1
        assert after["cached_tokens"] >= held - 16
    assert answer.usage.input_tokens == sum(step["prompt_tokens"] for step in steps)


def test_a_stream_tells_each_call_and_each_result_as_it_comes(harbour: Opens) -> None:
    script = (calls(("write", "one"), ("look", "two")), calls(("nothing", "three")))
    with harbour(script) as here:
        events = list(ask(here, stream=True))
        stored = here.client.responses.retrieve(events[0].response.id)
    assert [event.sequence_number for event in events] == list(range(len(events)))
    assert events[0].type == "response.created"
    assert events[-1].type == "response.completed"
    done = [event.item for event in events if event.type == "response.output_item.done"]
    assert [item.type for item in done] == [
        "function_call", "function_call", "function_call_output", "function_call_output",
        "function_call", "function_call_output", "message",
    ]  # fmt: skip
    results = [item for item in done if item.type == "function_call_output"]
    called = [item for item in done if item.type == "function_call"]
    assert [item.call_id for item in results] == [item.call_id for item in called]
    assert "write did" in results[0].output
    assert results[2].output == "there is no tool 'nothing'; there are: look, write"
    assert sorted(here.lines) == ['look {"line": "two"}', 'write {"line": "one"}']
    final = events[-1].response
    assert stored.output == final.output
    assert [item.id for item in final.output] == [item.id for item in done]
    assert final.foreword["agent"]["tool_calls"] == 2


def test_a_conversation_keeps_what_an_agent_did_and_goes_on_from_it(harbour: Opens) -> None:
    with harbour((calls(("write", "one")), calls(("write", "two")))) as here:
        talk = here.client.conversations.create()
        first = ask(here, conversation=talk.id)
        items = list(here.client.conversations.items.list(talk.id, order="asc"))
        # The script is at its end: what is asked now is answered in words.
        second = ask(here, conversation=talk.id, input="And what did you do?")
        third = ask(here, previous_response_id=ask(here, input="Begin.").id, input="And then?")
    kinds = ["function_call", "function_call_output"] * 2
    assert [item.type for item in items] == ["message", *kinds, "message"]
    assert first.status == second.status == third.status == "completed"
    for answer in (second, third):
        [step] = answer.foreword["steps"]
        assert step["verdict"] == "hit", step
        assert step["cached_tokens"] >= 0.99 * step["ideal_tokens"]
    before = first.foreword["steps"][-1]
    held = before["prompt_tokens"] + before["output_tokens"] - 1
    assert second.foreword["steps"][0]["cached_tokens"] >= held - 16


SHORT = """
name: writer
version: 1
instructions: Be short.
tools: [{mcp: notes}]
limits: {steps: 3, tool_calls: 2}
"""


def test_a_budget_ends_a_run_with_a_result_for_each_call(harbour: Opens) -> None:
    with harbour(TWELVE, SHORT) as here:
        answer = ask(here)
        again = ask(here, previous_response_id=answer.id, input="Go on.", max_output_tokens=40)
        # Two at most, and both were made.
        refused = [item.output for item in answer.output if item.type == "function_call_output"]
    assert answer.status == "incomplete"
    assert answer.incomplete_details.reason is None  # OpenAI knows no such one
    assert answer.foreword["agent"]["reason"] == "max_steps"
    assert len(here.lines) == 4
    assert "not called" in refused[2]
    assert again.status == "incomplete"
    assert again.output[-1].type == "function_call_output"


def test_what_cant_be_known_waits_for_a_decision(harbour: Opens) -> None:
    script = (calls(("look", "vanish one"), ("write", "vanish two")), calls(("write", "three")))
    with harbour(script) as here:
        answer = ask(here)
        assert answer.status == "in_progress"
        assert answer.foreword["agent"]["status"] == "interrupted"
        [waiting] = answer.foreword["agent"]["waiting"]
        assert (waiting["name"], len(here.lines)) == ("write", 2)
        path = f"/foreword/agents/runs/{answer.id}"
        assert here.http.get(path).json()["status"] == "interrupted"
        assert here.http.get(f"/v1/responses/{answer.id}").json()["status"] == "in_progress"
        wrong = here.http.post(f"{path}/decide", json={"call_id": "none", "action": "retry"})
        assert (wrong.status_code, wrong.json()["error"]["code"]) == (409, "call_not_waiting")
        decision = {"call_id": waiting["call_id"], "action": "skip", "output": "It is done."}
        assert here.http.post(f"{path}/decide", json=decision).status_code == 200
        final = until_ended(here, answer.id)
        assert here.http.post(f"{path}/cancel").json()["error"]["code"] == "run_ended"
    assert final["status"] == "completed"
    results = [i["output"] for i in final["output"] if i["type"] == "function_call_output"]
    assert results[:2] == ["the tool failed: the connection broke", "It is done."]
    assert sorted(line.split()[0] for line in here.lines) == ["look", "write", "write"]


def test_a_run_is_cancelled_by_route_and_by_its_client_leaving(harbour: Opens) -> None:
    script = (calls(("write", "one")), calls(("write", "stay")))
    with harbour(script) as here:
        talk = here.client.conversations.create()
        with ask(here, stream=True, conversation=talk.id) as stream:
            run_id = next(iter(stream)).response.id
            until_written(here, 2)
            with pytest.raises(openai.ConflictError):
                ask(here, conversation=talk.id)
            here.http.post(f"/foreword/agents/runs/{run_id}/cancel").raise_for_status()
            last = list(stream)[-1]
        assert (last.type, last.response.status) == ("response.incomplete", "cancelled")
        assert list(here.client.conversations.items.list(talk.id)) == []
        with ask(here, stream=True, conversation=talk.id) as stream:
            left = next(iter(stream)).response.id
            until_written(here, 4)
        run = until_ended(here, left, path="/foreword/agents/runs/{}")
        assert (run["status"], run["reason"]) == ("cancelled", "client_left")
        assert [call["state"] for call in run["calls"]] == ["done", "interrupted"]
        assert list(here.client.conversations.items.list(talk.id)) == []


PARENT = """
name: boss
version: 1
instructions: Hand on what there is to do.
tools: [{agent: writer}]
limits: {tokens: 900}
"""


def test_a_sub_agent_begins_with_its_parents_prompt(harbour: Opens) -> None:
    task = CallConfig(text="\nwriter on it ", name="writer", arguments='{"task": "Write two."}')
    # The parent's call; by then one result is shown, and the sub-agent's calls follow.
    script = ((task,), calls(("write", "one")), calls(("write", "two")))
    with harbour(script, AGENT, PARENT) as here:
        answer = ask(here, model="agent:boss", input="Have two lines written, please.")
        run = here.http.get(f"/foreword/agents/runs/{answer.id}").json()
        [sub] = run["sub_agents"]
        child = here.http.get(f"/foreword/agents/runs/{sub['id']}").json()
    assert (sub["agent"], sub["status"], answer.status) == ("writer", "completed", "completed")
    assert [item.type for item in answer.output][:2] == ["function_call", "function_call_output"]
    asked, begun = answer.foreword["steps"][0], child["steps"][0]
    # Its first prompt re-uses all of its parent's, the parent's answer included.
    held = asked["prompt_tokens"] + asked["output_tokens"] - 1
    assert begun["cached_tokens"] >= held - 16
    assert begun["verdict"] == "hit"
    assert answer.foreword["agent"]["steps"] > len(answer.foreword["steps"])


def test_a_sub_agent_that_waits_has_its_parent_wait(harbour: Opens) -> None:
    task = CallConfig(text="\nwriter on it ", name="writer", arguments='{"task": "Write."}')
    with harbour(((task,), calls(("write", "vanish"))), AGENT, PARENT) as here:
        answer = ask(here, model="agent:boss")
        path = f"/foreword/agents/runs/{answer.id}"
        run = here.http.get(path).json()
        [waiting] = run["waiting"]
        assert (answer.status, run["status"]) == ("in_progress", "interrupted")
        assert waiting["run_id"] == run["sub_agents"][0]["id"]
        decision = {"call_id": waiting["call_id"], "action": "skip", "output": "It is written."}
        here.http.post(f"{path}/decide", json=decision).raise_for_status()
        final = until_ended(here, answer.id)
        [child] = here.http.get(path).json()["sub_agents"]
    assert (final["status"], child["status"], len(here.lines)) == ("completed", "completed", 1)


@pytest.mark.parametrize(
    ("fields", "status", "said"),
    [
        ({"model": "agent:nobody"}, 404, "no agent 'nobody'"),
        ({"tools": [{"type": "function", "name": "f", "parameters": {}}]}, 400, "tools"),
        ({"model": "agent:writer", "extra_body": {"foreword": {"agent": "x"}}}, 400, "give one"),
    ],
)
def test_what_an_agent_cant_do_is_refused(
    plain: Harbour, fields: dict[str, Any], status: int, said: str
) -> None:
    with pytest.raises(openai.APIStatusError, match=said) as refused:
        ask(plain, **fields)
    assert refused.value.status_code == status


def test_agents_are_among_the_models_and_answer_responses_only(plain: Harbour) -> None:
    owners = {model.id: model.owned_by for model in plain.client.models.list()}
    assert owners["agent:writer"] == "foreword-agents" != owners["default"]
    assert plain.client.models.retrieve("agent:writer").id == "agent:writer"
    with pytest.raises(openai.BadRequestError, match="ask it at /v1/responses") as refused:
        plain.client.chat.completions.create(
            model="agent:writer", messages=[{"role": "user", "content": "Write."}]
        )
    assert refused.value.param == "model"


def test_what_isnt_to_be_stored_is_gone_with_its_end(plain: Harbour) -> None:
    answer = ask(plain, store=False)
    assert answer.status == "completed"
    for path in ("/v1/responses/{}", "/foreword/agents/runs/{}"):
        assert plain.http.get(path.format(answer.id)).status_code == 404


def test_agents_are_listed_and_named_by_foreword_s_field_too(plain: Harbour) -> None:
    listed = plain.http.get("/foreword/agents").json()["data"]
    assert [agent["id"] for agent in listed] == ["researcher", "writer"]
    answer = ask(plain, model="default", extra_body={"foreword": {"agent": "writer"}})
    assert answer.foreword["agent"]["name"] == "writer"
    runs = plain.http.get("/foreword/agents/runs").json()["data"]
    assert answer.id in [run["id"] for run in runs]


def until_written(harbour: Harbour, lines: int) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while len(harbour.lines) < lines:
        assert time.monotonic() < deadline, harbour.lines
        time.sleep(0.02)


def until_ended(harbour: Harbour, run_id: str, path: str = "/v1/responses/{}") -> dict[str, Any]:
    deadline = time.monotonic() + PATIENCE_S
    while True:
        told: dict[str, Any] = harbour.http.get(path.format(run_id)).raise_for_status().json()
        if told["status"] not in ("in_progress", "interrupted"):
            return told
        assert time.monotonic() < deadline, told
        time.sleep(0.02)
