"""Rows of runs, steps and calls, for those that read and change them."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import sqlalchemy as sa

from app.agents.loop import Call, CallState, RunStatus, Spent, Step
from app.agents.records import Parent, RunRecord, StepRecord
from app.stored.records import SaidItem
from app.tables import agent_calls, agent_runs, agent_steps, conversations

_R, _S, _C = agent_runs.c, agent_steps.c, agent_calls.c
# Longer than any run: its conversation is given free by its end, or by nothing.
_FOR_EVER = 1e12
# Beside the request's own fields, whose column it shares.
_COMPACTED = "foreword.compacted"
OPEN = (RunStatus.IN_PROGRESS, RunStatus.INTERRUPTED)


def run_of(row: sa.Row[Any]) -> RunRecord:
    """A run from its row."""
    request = dict(row.request)
    compacted = request.pop(_COMPACTED, None)
    parent = None
    if row.parent_id is not None:
        parent = Parent(run_id=row.parent_id, step=row.parent_step, place=row.parent_place)
    return RunRecord(
        id=row.id,
        tenant=row.tenant,
        agent=row.agent,
        created_at=row.created_at,
        request=request,
        input=row.input,
        status=RunStatus(row.status),
        reason=row.reason,
        ended_at=row.ended_at,
        conversation_id=row.conversation_id,
        parent=parent,
        driven=row.driven,
        cancelled=row.cancelled,
        seconds=row.seconds,
        response=row.response,
        compacted=compacted,
    )


def insert_run(connection: sa.Connection, run: RunRecord, owned: Mapping[str, Any]) -> None:
    """Write a new run and whose it is, in a transaction of the caller's; its conversation is its
    own until it ends."""
    connection.execute(sa.insert(agent_runs).values(**_run_values(run), **owned))
    if run.conversation_id is not None:
        c = conversations.c
        turn = (c.id == run.conversation_id, c.turn == run.id)
        connection.execute(sa.update(conversations).where(*turn).values(turn_until=_FOR_EVER))


def _run_values(run: RunRecord) -> dict[str, Any]:
    parent = run.parent
    compacted = {} if run.compacted is None else {_COMPACTED: dict(run.compacted)}
    return {
        "id": run.id,
        "tenant": run.tenant,
        "agent": run.agent,
        "created_at": run.created_at,
        "status": run.status,
        "request": {**run.request, **compacted},
        "input": list(run.input),
        "conversation_id": run.conversation_id,
        "parent_id": parent.run_id if parent else None,
        "parent_step": parent.step if parent else None,
        "parent_place": parent.place if parent else None,
        "driven": run.driven,
        "cancelled": run.cancelled,
        "seconds": run.seconds,
    }


def read_steps(connection: sa.Connection, run_id: str) -> list[StepRecord]:
    """A run's steps in order."""
    calls: dict[int, list[Call]] = {}
    found = sa.select(agent_calls).where(_C.run_id == run_id).order_by(_C.step, _C.place)
    for row in connection.execute(found):
        calls.setdefault(row.step, []).append(call_of(row))
    steps = sa.select(agent_steps).where(_S.run_id == run_id).order_by(_S.number)
    return [
        StepRecord(
            number=row.number,
            # `items` is a method of a row.
            items=row._mapping["items"],
            output_ids=row.output_ids,
            tokenizer=row.tokenizer,
            report=row.report,
            step=Step(finish=row.finish, tokens=row.tokens, calls=tuple(calls.get(row.number, ()))),
        )
        for row in connection.execute(steps)
    ]


def said_in_run(connection: sa.Connection, run_id: str) -> list[SaidItem] | None:
    """What an agent said and was shown in a run, with the token ids; None: it is no agent's."""
    steps = read_steps(connection, run_id)
    if not steps:
        return None
    return [item for step in steps for item in step.said()]


def insert_step(connection: sa.Connection, run_id: str, step: StepRecord) -> None:
    """Write a step and its calls, in a transaction of the caller's."""
    connection.execute(
        sa.insert(agent_steps).values(
            run_id=run_id,
            number=step.number,
            items=list(step.items),
            output_ids=step.output_ids,
            tokenizer=step.tokenizer,
            finish=step.step.finish,
            tokens=step.step.tokens,
            report=step.report,
        )
    )
    for call in step.step.calls:
        place = {"run_id": run_id, "step": step.number, "place": call.place}
        fixed = {
            "call_id": call.call_id,
            "name": call.name,
            "arguments": call.arguments,
            "idempotent": call.idempotent,
        }
        connection.execute(sa.insert(agent_calls).values(**place, **fixed, **call_values(call)))


def call_of(row: sa.Row[Any]) -> Call:
    """A call from its row."""
    return Call(
        place=row.place,
        call_id=row.call_id,
        name=row.name,
        arguments=row.arguments,
        idempotent=row.idempotent,
        state=CallState(row.state),
        attempts=row.attempts,
        output=row.output,
        is_error=row.is_error,
        spent=Spent(**row.spent),
    )


def call_values(call: Call) -> dict[str, Any]:
    """What changes of a call."""
    return {
        "state": call.state,
        "attempts": call.attempts,
        "output": call.output,
        "is_error": call.is_error,
        "spent": asdict(call.spent),
    }


def write_call(connection: sa.Connection, run_id: str, step: int, call: Call) -> None:
    """How a call stands, in a transaction of the caller's."""
    connection.execute(
        sa.update(agent_calls)
        .where(_C.run_id == run_id, _C.step == step, _C.place == call.place)
        .values(**call_values(call))
    )


def is_interrupted(connection: sa.Connection, run_id: str) -> bool:
    """Whether a call of a run waits for a decision."""
    found = sa.select(sa.func.count()).where(_C.run_id == run_id, _C.state == CallState.INTERRUPTED)
    return bool(connection.scalar(found))


def has_interrupted(connection: sa.Connection, run_id: str) -> bool:
    """Whether a sub-agent of a run waits for a decision."""
    found = sa.select(sa.func.count()).where(
        _R.parent_id == run_id, _R.status == RunStatus.INTERRUPTED
    )
    return bool(connection.scalar(found))


def stop_run(
    connection: sa.Connection, run_id: str, *which: sa.ColumnElement[bool], ended_at: float
) -> list[RunRecord]:
    """Cancel a run that hasn't ended, and its sub-agents'; those that end, as they are then."""
    done = connection.execute(
        sa.update(agent_runs)
        .where(_R.id == run_id, _R.status.in_(OPEN), *which)
        .values(status=RunStatus.CANCELLED, ended_at=ended_at, owner=None)
    )
    if not done.rowcount:
        return []
    row = connection.execute(sa.select(agent_runs).where(_R.id == run_id)).one()
    return [run_of(row), *end_children(connection, run_id, ended_at=ended_at)]


def end_children(connection: sa.Connection, run_id: str, *, ended_at: float) -> list[RunRecord]:
    """Sub-agents whose parent has ended work for nobody; those that end."""
    left = sa.select(_R.id).where(_R.parent_id == run_id, _R.status.in_(OPEN))
    children = list(connection.execute(left).scalars())
    return [run for each in children for run in stop_run(connection, each, ended_at=ended_at)]


def forget_ended(connection: sa.Connection, run_id: str) -> None:
    """Delete a run that is over, in a transaction of the caller's; one under way is ended by
    whoever works on it, or by the watch."""
    delete_runs(connection, sa.and_(_R.id == run_id, _R.ended_at.is_not(None)))


def delete_runs(connection: sa.Connection, which: sa.ColumnElement[bool]) -> None:
    """Delete runs and their sub-agents', in a transaction of the caller's."""
    ids = list(connection.execute(sa.select(_R.id).where(which)).scalars())
    if not ids:
        return
    delete_runs(connection, _R.parent_id.in_(ids))
    connection.execute(sa.delete(agent_calls).where(_C.run_id.in_(ids)))
    connection.execute(sa.delete(agent_steps).where(_S.run_id.in_(ids)))
    connection.execute(sa.delete(agent_runs).where(_R.id.in_(ids)))
