"""Sub-agents: runs that go on from the transcript of the run that calls them."""

import os
import time
from dataclasses import replace

import anyio

from app.agents.keeping import Keeper
from app.agents.loop import Call, RunStatus, left_for, spent_by
from app.agents.records import Parent, RunRecord, StepRecord
from app.agents.request import task_of
from app.agents.run import AgentRun
from app.agents.store import RunLostError
from app.agents.writer import RunWriter
from app.responses.objects import Frame
from prompts.agent import Agent


async def child_of(
    parent: AgentRun, step: StepRecord, call: Call, agent: Agent, task: str
) -> AgentRun:
    """The run of a sub-agent: begun, picked up, or long since over.

    Raises:
        RunLostError: another gateway works on it.
    """
    store = parent.agents.store
    of = Parent(run_id=parent.record.id, step=step.number, place=call.place)
    record = await anyio.to_thread.run_sync(store.child, of)
    history = parent.history.handed(step, call.call_id, task_of(agent, task))
    steps: list[StepRecord] = []
    is_resumed = record is not None
    if record is None:
        record = RunRecord(
            id=f"run_{os.urandom(16).hex()}",
            tenant=parent.record.tenant,
            agent=agent.name,
            created_at=time.time(),
            request={"task": task},
            parent=of,
        )
        await anyio.to_thread.run_sync(store.begin, record)
    else:
        steps = await anyio.to_thread.run_sync(store.steps, record.id)
        if record.status is RunStatus.IN_PROGRESS:
            taken = await anyio.to_thread.run_sync(store.take, record.id)
            if taken is None:
                raise RunLostError(record.id)
            record = taken
    history = replace(history, steps=steps)
    spent = spent_by([each.step for each in parent.steps])
    frame = Frame(
        id=record.id,
        model=parent.request.model,
        created_at=int(record.created_at),
        request=parent.request,
    )
    return AgentRun(
        agents=parent.agents,
        services=parent.services,
        agent=agent,
        limits=left_for(parent.limits, agent.limits, spent, parent.seconds),
        record=record,
        caller=parent.caller,
        request=parent.request,
        toolbox=parent.toolbox,
        history=history,
        writer=RunWriter(frame, [dict(each.item) for each in history.own]),
        keeper=Keeper(),
        is_resumed=is_resumed,
        cancelled=parent.cancelled,
        status=record.status,
        root_id=parent.root_id or parent.record.id,
        tells_sub_agents=parent.tells_sub_agents,
        make_child=child_of,
    )
