"""Runs of agents in the background, through the unmodified OpenAI SDK."""

import time
from typing import Any

from tests.app.agents.conftest import Harbour, Opens
from tests.app.agents.notes import calls
from tests.app.agents.test_runs import PATIENCE_S, until_ended, until_written


def begin(harbour: Harbour, **fields: Any) -> Any:
    given = {"model": "agent:writer", "input": "Write.", "background": True} | fields
    return harbour.client.responses.create(**given)


def test_an_agent_works_in_the_background(harbour: Opens) -> None:
    with harbour((calls(("write", "one")), calls(("look", "two")))) as here:
        queued = begin(here)
        assert queued.status in ("queued", "in_progress")
        response = ended(here, queued.id)
        run = here.http.get(f"/foreword/agents/runs/{queued.id}").json()
        after = here.client.responses.create(
            model="agent:writer", input="And?", previous_response_id=queued.id
        )
    assert (response["status"], run["status"]) == ("completed", "completed")
    kinds = [item["type"] for item in response["output"]]
    assert kinds == ["function_call", "function_call_output"] * 2 + ["message"]
    [step] = after.foreword["steps"]
    assert step["verdict"] == "hit"


def test_a_call_that_nobody_knows_of_waits_in_the_background_too(harbour: Opens) -> None:
    with harbour((calls(("write", "vanish")),)) as here:
        queued = begin(here)
        path = f"/foreword/agents/runs/{queued.id}"
        run = until_run(here, path, "interrupted")
        assert here.client.responses.retrieve(queued.id).status == "in_progress"
        [waiting] = run["waiting"]
        decision = {"call_id": waiting["call_id"], "action": "skip", "output": "It is written."}
        here.http.post(f"{path}/decide", json=decision).raise_for_status()
        response = ended(here, queued.id)
    assert response["status"] == "completed"
    [result] = [i for i in response["output"] if i["type"] == "function_call_output"]
    assert (result["output"], len(here.lines)) == ("It is written.", 1)


def test_a_cancelled_one_is_stopped_and_gives_its_conversation_free(harbour: Opens) -> None:
    with harbour((calls(("write", "stay")),)) as here:
        talk = here.client.conversations.create()
        queued = begin(here, conversation=talk.id)
        until_written(here, 1)
        assert here.client.responses.cancel(queued.id).status == "cancelled"
        run = until_ended(here, queued.id, path="/foreword/agents/runs/{}")
        assert run["status"] == "cancelled"
        assert list(here.client.conversations.items.list(talk.id)) == []
        # It isn't taken any more.
        made = here.client.conversations.items.create(
            talk.id, items=[{"role": "user", "content": "Hello?"}]
        )
    assert len(made.data) == 1


def ended(harbour: Harbour, response_id: str) -> dict[str, Any]:
    deadline = time.monotonic() + PATIENCE_S
    while True:
        told: dict[str, Any] = harbour.http.get(f"/v1/responses/{response_id}").json()
        if told["status"] not in ("queued", "in_progress"):
            return told
        assert time.monotonic() < deadline, told
        time.sleep(0.02)


def until_run(harbour: Harbour, path: str, status: str) -> dict[str, Any]:
    deadline = time.monotonic() + PATIENCE_S
    while True:
        answer = harbour.http.get(path)
        if answer.status_code == 200 and answer.json()["status"] == status:
            run: dict[str, Any] = answer.json()
            return run
        assert time.monotonic() < deadline, answer.text
        time.sleep(0.02)
