"""What agents' responses give is what the SDK's types say, taken strictly."""

from collections.abc import Iterable
from typing import Any

import httpx
import pytest
from openai.types.responses import ResponseStreamEvent
from pydantic import TypeAdapter

from app.agents.telling import SUB_AGENT_EVENT
from tests.app.agents.conftest import Harbour, Opens
from tests.app.agents.notes import AGENT, calls
from tests.app.agents.test_background import begin, ended, until_run
from tests.app.agents.test_calls import BOSS, TASK
from tests.app.agents.test_odd_answers import STORY
from tests.app.agents.test_runs import SHORT, TWELVE, ask
from tests.app.openai_objects import exact

EVENT: TypeAdapter[ResponseStreamEvent] = TypeAdapter(ResponseStreamEvent)


def told(here: Harbour, **fields: Any) -> list[Any]:
    """The events of a run, each of its type."""
    events = list(ask(here, stream=True, **fields))
    check(events)
    return events


def check(events: Iterable[Any]) -> None:
    """The `event` of a sub-agent's is one of OpenAI's; what it is wrapped in is ours."""
    for event in events:
        given = event.model_dump(mode="json", by_alias=True)
        EVENT.validate_python(given["event"] if event.type == SUB_AGENT_EVENT else given)


@pytest.mark.parametrize(
    ("script", "agent", "status"),
    [
        ((calls(("write", "one"), ("nothing", "two")),), AGENT, "completed"),
        (TWELVE, SHORT, "incomplete"),
        ((calls(("write", "vanish")),), AGENT, "in_progress"),
    ],
)
def test_a_response_and_all_its_events(
    harbour: Opens, script: Any, agent: str, status: str
) -> None:
    with harbour(script, agent) as here:
        whole = exact(ask(here))
        events = told(here)
        stored = exact(here.client.responses.retrieve(whole.id))
        for item in (
            here.client.responses.input_items.list(whole.id) if status != "in_progress" else ()
        ):
            exact(item)
    assert whole.status == events[-1].response.status == stored.status == status
    assert whole.usage is not None
    assert whole.usage.output_tokens_details.reasoning_tokens == 0


def test_an_answer_that_the_token_limit_ends(harbour: Opens) -> None:
    with harbour(((STORY,),)) as here:
        answer = exact(ask(here, max_output_tokens=24))
    assert answer.incomplete_details.reason == "max_output_tokens"


def test_sub_agents_events(harbour: Opens) -> None:
    options = {"foreword": {"sub_agents": True}}
    with harbour(((TASK,),), AGENT, BOSS) as here:
        events = told(here, model="agent:boss", extra_body=options)
    assert any(event.type == SUB_AGENT_EVENT for event in events)


def test_one_of_the_background_at_each_of_its_stages(harbour: Opens) -> None:
    with harbour((calls(("write", "vanish")),)) as here:
        queued = exact(begin(here))
        path = f"/foreword/agents/runs/{queued.id}"
        until_run(here, path, "interrupted")
        exact(here.client.responses.retrieve(queued.id))
        exact(here.client.responses.cancel(queued.id))
        ended(here, queued.id)
        exact(here.client.responses.retrieve(queued.id))
        check(begin(here, stream=True, input="In words.", tool_choice="none"))


def test_one_that_was_cancelled(harbour: Opens) -> None:
    with harbour((calls(("write", "vanish")),)) as here:
        waits: Any = ask(here)
        here.http.post(f"/foreword/agents/runs/{waits.id}/cancel").raise_for_status()
        until_run(here, f"/foreword/agents/runs/{waits.id}", "cancelled")
        answer = exact(here.client.responses.retrieve(waits.id))
    assert answer.status == "cancelled"


def test_one_that_fails(harbour: Opens) -> None:
    with harbour((calls(("write", "vanish")),)) as here:
        waits: Any = ask(here)
        fault = {"kind": "error", "path": "/v1/chat/completions", "times": None, "status": 400}
        httpx.post(f"{here.engine}/simulator/faults", json=fault, trust_env=False)
        path = f"/foreword/agents/runs/{waits.id}"
        [waiting] = waits.foreword["agent"]["waiting"]
        decision = {"call_id": waiting["call_id"], "action": "skip"}
        here.http.post(f"{path}/decide", json=decision).raise_for_status()
        until_run(here, path, "failed")
        answer = exact(here.client.responses.retrieve(waits.id))
    assert answer.error is not None
    assert answer.foreword["agent"]["reason"] == "engine_refused"  # type: ignore[attr-defined]
