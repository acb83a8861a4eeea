"""Calls that can't begin: a sub-agent's that no engine takes, and those of a run that is to end."""

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import sqlalchemy as sa

from app.agents.calls import CallMaker
from app.agents.history import RunHistory
from app.agents.keeping import Keeper
from app.agents.loop import Call, RunStatus, Step
from app.agents.records import RunRecord, StepRecord
from app.agents.run import AgentRun
from app.agents.store import RunStore
from app.agents.telling import told_while
from app.agents.toolbox import Toolbox
from app.agents.writer import RunWriter
from app.callers import Caller
from app.metrics import Metrics
from app.responses.bodies import ResponsesRequest
from app.responses.objects import Frame
from app.stored.records import Said
from bench.engine_sim import CallConfig
from prompts.agent import Agent, Limits, StepLimits
from tests.app.agents.conftest import Opens
from tests.app.agents.notes import NoteTools, written
from tests.app.agents.test_counts import counted
from tests.app.clock import Clock

RUN = "resp_1"
# With room for such an answer no prompt is within the window.
WIDE = """
name: writer
version: 1
instructions: Write all that you know.
tools: [{mcp: notes}]
limits: {step: {tokens: 16384}}
"""
BOSS = """
name: boss
version: 1
instructions: Have others write.
tools: [{agent: writer}]
"""
TASK = CallConfig(text="\nwriter on it ", name="writer", arguments='{"task": "Write."}')


def test_a_sub_agent_that_cant_begin_is_an_error_to_its_caller(harbour: Opens) -> None:
    with harbour(((TASK,),), WIDE, BOSS) as here:
        answer = here.client.responses.create(model="agent:boss", input="Have it written.")
        [child] = here.http.get(f"/foreword/agents/runs/{answer.id}").json()["sub_agents"]
        runs = counted(here, "foreword_agent_runs_total", "agent")
    results: Any = [item for item in answer.output if item.type == "function_call_output"]
    assert [item.status for item in results] == ["incomplete"]
    assert results[0].output.startswith("the agent couldn't begin: the prompt has ")
    assert (answer.status, answer.output[-1].type) == ("completed", "message")
    assert child["status"] == "failed"
    assert runs == {("boss", "completed"): 1, ("writer", "failed"): 1}


def test_a_stream_has_its_failure_too(harbour: Opens) -> None:
    tell = {"foreword": {"sub_agents": True}}
    with harbour(((TASK,),), WIDE, BOSS) as here:
        stream: Any = here.client.responses.create(
            model="agent:boss", input="Have it written.", stream=True, extra_body=tell
        )
        events = list(stream)
    told = [event.event["type"] for event in events if event.type == "foreword.sub_agent.event"]
    assert (told[0], told[-1]) == ("response.created", "response.failed")
    assert events[-1].type == "response.completed"


class NotingStore(RunStore):
    """Says when a call was written down."""

    noted: Callable[[], None] = staticmethod(lambda: None)

    def keep_call(self, run_id: str, step: int, call: Call, *, seconds: float) -> None:
        super().keep_call(run_id, step, call, seconds=seconds)
        self.noted()


@pytest.fixture
def store(database: sa.Engine, clock: Clock) -> NotingStore:
    return NotingStore(database, owner="here", lease_s=15, now=clock)


async def two_calls(store: RunStore, notes: Path) -> AgentRun:
    """A run whose model has asked for two calls, of which a step may make one."""
    tools = {tool.spec.name: tool for tool in await NoteTools(path=notes).tools()}
    named = [
        {"type": "function_call", "id": f"fc_{n}", "call_id": f"c{n}", "name": "write"}
        for n in range(2)
    ]
    calls = tuple(
        Call(place=n, call_id=f"c{n}", name="write", arguments="{ }", idempotent=False)
        for n in range(2)
    )
    request = ResponsesRequest(model="default", input="Write.")
    record = RunRecord(id=RUN, tenant="t", agent="writer", created_at=1.0, request={})
    step = StepRecord(
        number=0,
        items=[{**item, "arguments": "{ }"} for item in named],
        step=Step(finish="tool_calls", tokens=7, calls=calls),
        report={},
    )
    store.begin(record)
    store.keep_step(RUN, step, seconds=0, asked=())
    agents: Any = SimpleNamespace(store=store)
    services: Any = SimpleNamespace(metrics=Metrics())
    never: Any = None
    return AgentRun(
        agents=agents,
        services=services,
        agent=Agent(name="writer", version=1, path=Path("writer.yaml"), instructions="Write."),
        limits=Limits(step=StepLimits(tool_calls=1)),
        record=record,
        caller=Caller(tenant="t"),
        request=request,
        toolbox=Toolbox(specs=(), own={"writer": tools}),
        history=RunHistory(before=Said(), asked=(), steps=[step]),
        writer=RunWriter(Frame(id=RUN, model="tiny", created_at=1, request=request)),
        keeper=Keeper(),
        make_child=never,
        is_resumed=True,
    )


@pytest.mark.anyio
async def test_calls_that_are_stopped_before_they_begin_arent_made(
    store: NotingStore, tmp_path: Path
) -> None:
    run = await two_calls(store, tmp_path / "notes.txt")
    [step] = run.steps
    maker = CallMaker(run, step)
    # With whoever reads them the calls begin a turn of the loop later.
    maker.stop()
    assert [said async for said in told_while(maker, step.step.calls)] == []
    assert (written(tmp_path / "notes.txt"), store.steps(RUN)) == ([], [step])


@pytest.mark.anyio
async def test_a_run_that_is_cancelled_while_calls_are_refused_makes_none(
    store: NotingStore, tmp_path: Path
) -> None:
    run = await two_calls(store, tmp_path / "notes.txt")

    def cancelled() -> None:
        run.cancelled = True

    store.noted = cancelled
    events = [event async for event in run.events()]
    assert events[-1]["response"]["status"] == "cancelled"
    assert written(tmp_path / "notes.txt") == []
    kept = store.find(RUN)
    assert kept is not None
    assert kept.status is RunStatus.CANCELLED
