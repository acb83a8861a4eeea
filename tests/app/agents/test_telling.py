"""What sub-agents say, in the stream of the response that they work for."""

import time
from collections.abc import Sequence
from typing import Any

import anyio
import pytest

from app.agents.loop import Call
from app.agents.telling import told_while
from bench.engine_sim import CallConfig
from tests.app.agents.conftest import Harbour, Opens
from tests.app.agents.notes import AGENT, calls

PATIENCE_S = 60.0
MIDDLE = """
name: clerk
version: 1
instructions: Hand on what there is to do.
tools: [{agent: writer}]
"""
BOSS = """
name: boss
version: 1
instructions: Have others do it.
tools: [{agent: clerk}]
"""
TELL = {"foreword": {"sub_agents": True}}


def task(name: str) -> tuple[CallConfig, ...]:
    return (CallConfig(text=f"\n{name} on it ", name=name, arguments='{"task": "Write."}'),)


SCRIPT = (task("clerk"), task("writer"), calls(("write", "one")))
AGENTS = (AGENT, MIDDLE, BOSS)


def ask(here: Harbour, **fields: Any) -> Any:
    return here.client.responses.create(model="agent:boss", input="Have it written.", **fields)


def by_run(events: Sequence[Any]) -> dict[tuple[str, str], list[dict[str, Any]]]:
    """What sub-agents said, by agent and the run that it works for."""
    told: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for event in events:
        if event.type == "foreword.sub_agent.event":
            told.setdefault((event.agent, event.parent_id), []).append(event.event)
    return told


def test_a_stream_has_them_marked_with_whose_they_are(harbour: Opens) -> None:
    with harbour(SCRIPT, *AGENTS) as here:
        events = list(ask(here, stream=True, extra_body=TELL))
        final = events[-1].response
        path = "/foreword/agents/runs/{}"
        [clerk] = here.http.get(path.format(final.id)).json()["sub_agents"]
        [writer] = here.http.get(path.format(clerk["id"])).json()["sub_agents"]
        kept = here.http.get(path.format(writer["id"])).json()
    assert [event.sequence_number for event in events] == list(range(len(events)))
    assert (events[-1].type, final.status) == ("response.completed", "completed")
    told = by_run(events)
    assert set(told) == {("clerk", final.id), ("writer", clerk["id"])}
    for said in told.values():
        assert [event["sequence_number"] for event in said] == list(range(len(said)))
        assert (said[0]["type"], said[-1]["type"]) == ("response.created", "response.completed")
    said = told["writer", clerk["id"]]
    done = [event["item"] for event in said if event["type"] == "response.output_item.done"]
    assert [item["type"] for item in done] == ["function_call", "function_call_output", "message"]
    assert said[-1]["response"]["id"] == writer["id"] == kept["id"]
    # They come while the call goes on: between the call and its result.
    kinds = [event.type for event in events]
    first, *_ = [
        place
        for place, event in enumerate(events)
        if event.type == "response.output_item.done" and event.item.type == "function_call_output"
    ]
    assert max(i for i, kind in enumerate(kinds) if kind.startswith("foreword.")) < first
    assert [item.call_id for item in final.output[:1]] == [
        event.call_id for event in events if getattr(event, "agent", None) == "clerk"
    ][:1]


def test_the_sdk_s_own_reader_of_streams_takes_them(harbour: Opens) -> None:
    with harbour(SCRIPT, *AGENTS) as here:
        with here.client.responses.stream(
            model="agent:boss", input="Have it written.", extra_body=TELL
        ) as stream:
            kinds = {event.type for event in stream}
            final = stream.get_final_response()
        stored = here.client.responses.retrieve(final.id)
    assert "foreword.sub_agent.event" in kinds
    assert final.output_text == stored.output_text != ""


def test_who_doesn_t_ask_for_them_gets_none_and_the_same_answer(harbour: Opens) -> None:
    with harbour(SCRIPT, *AGENTS) as here:
        plain = list(ask(here, stream=True))
        whole = ask(here, extra_body=TELL)
    assert {event.type.partition(".")[0] for event in plain} == {"response"}
    assert whole.status == plain[-1].response.status == "completed"
    assert [item.type for item in whole.output] == [i.type for i in plain[-1].response.output]


def test_a_client_that_leaves_meanwhile_ends_all_of_it(harbour: Opens) -> None:
    script = (task("clerk"), task("writer"), calls(("write", "stay")))
    with harbour(script, *AGENTS) as here:
        with ask(here, stream=True, extra_body=TELL) as stream:
            run_id = next(iter(stream)).response.id
            until_written(here)
        run = until_ended(here, run_id)
        assert (run["status"], run["reason"]) == ("cancelled", "client_left")


def test_one_that_is_cancelled_meanwhile_ends_with_an_event(harbour: Opens) -> None:
    script = (task("clerk"), task("writer"), calls(("write", "stay")))
    with harbour(script, *AGENTS) as here, ask(here, stream=True, extra_body=TELL) as stream:
        run_id = next(iter(stream)).response.id
        until_written(here)
        here.http.post(f"/foreword/agents/runs/{run_id}/cancel").raise_for_status()
        last = list(stream)[-1]
    assert (last.type, last.response.status) == ("response.incomplete", "cancelled")


def test_a_wait_for_a_decision_is_told_as_ever(harbour: Opens) -> None:
    script = (task("clerk"), task("writer"), calls(("write", "vanish")))
    with harbour(script, *AGENTS) as here:
        last = list(ask(here, stream=True, extra_body=TELL))[-1]
        assert last.type == "response.in_progress"
        assert last.response.foreword["agent"]["status"] == "interrupted"
        here.http.post(f"/foreword/agents/runs/{last.response.id}/cancel").raise_for_status()


class Maker:
    """Says something, and then fails or waits for ever."""

    def __init__(self, error: Exception | None) -> None:
        self._error = error
        self.was_stopped = False

    async def make(self, calls: Sequence[Call], tell: Any) -> None:
        await tell({"n": 1})
        if self._error is not None:
            raise self._error
        try:
            await anyio.sleep_forever()
        finally:
            self.was_stopped = True


@pytest.mark.anyio
async def test_what_fails_is_raised_and_what_nobody_reads_is_stopped() -> None:
    failing: Any = Maker(ValueError("lost"))
    events = told_while(failing, ())
    assert await anext(events) == {"n": 1}
    with pytest.raises(ValueError, match="lost"):
        await anext(events)
    endless: Any = Maker(None)
    events = told_while(endless, ())
    assert await anext(events) == {"n": 1}
    await events.aclose()
    assert endless.was_stopped


def until_written(here: Harbour) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not here.lines:
        assert time.monotonic() < deadline
        time.sleep(0.02)


def until_ended(here: Harbour, run_id: str) -> dict[str, Any]:
    deadline = time.monotonic() + PATIENCE_S
    while True:
        run: dict[str, Any] = here.http.get(f"/foreword/agents/runs/{run_id}").json()
        if run["status"] not in ("in_progress", "interrupted"):
            return run
        assert time.monotonic() < deadline, run
        time.sleep(0.02)
