"""Runs that nobody works on: who may go on with them, and how they are given up. In transactions of
the caller's."""

from collections.abc import Sequence

import sqlalchemy as sa

from app.agents.loop import Call, CallState, RunStatus
from app.agents.records import RunRecord
from app.agents.rows import OPEN, call_values, delete_runs, is_interrupted, stop_run
from app.leases import NOBODYS
from app.tables import agent_calls, agent_runs, conversations, stored_responses

_R, _C = agent_runs.c, agent_calls.c


def left_behind(connection: sa.Connection, free: sa.ColumnElement[bool]) -> list[str]:
    """Runs that are free and that nobody else will go on with, the oldest first."""
    found = sa.select(_R.id).where(
        _R.status == RunStatus.IN_PROGRESS, _R.parent_id.is_(None), _R.driven.is_(False), free
    )
    return list(connection.execute(found.order_by(_R.created_at)).scalars())


def given_up(connection: sa.Connection, free: sa.ColumnElement[bool]) -> list[str]:
    """Free runs that somebody else drove whose response was cancelled or deleted meanwhile."""
    found = (
        sa.select(_R.id, stored_responses.c.response)
        .outerjoin(stored_responses, stored_responses.c.id == _R.id)
        .where(_R.driven.is_(True), _R.status.in_(OPEN), free)
    )
    return [
        row.id
        for row in connection.execute(found)
        if row.response is None or row.response["status"] not in ("queued", "in_progress")
    ]


def abandon(
    connection: sa.Connection, run_id: str, free: sa.ColumnElement[bool], *, ended_at: float
) -> list[RunRecord]:
    """Cancel a run if it is free; those that end. Its conversation is as it was before it."""
    stopped = stop_run(connection, run_id, free, ended_at=ended_at)
    if not stopped:
        return []
    connection.execute(
        sa.update(conversations)
        .where(conversations.c.turn == run_id)
        .values(turn=None, turn_until=None)
    )
    kept = sa.select(stored_responses.c.id).where(stored_responses.c.id == run_id)
    if connection.execute(kept).first() is None:
        delete_runs(connection, _R.id == run_id)
    return stopped


def sweep(connection: sa.Connection, *, before: float) -> None:
    """Delete runs that ended before and whose response isn't kept any more."""
    kept = sa.select(stored_responses.c.id)
    gone = sa.and_(
        _R.parent_id.is_(None), _R.ended_at.is_not(None), _R.ended_at < before, _R.id.not_in(kept)
    )
    delete_runs(connection, gone)


def decide(
    connection: sa.Connection, run_id: str, line: Sequence[str], step: int, call: Call
) -> bool:
    """What is to be done about a call that was interrupted; False: it isn't any more."""
    # A write first: whoever is about to let it wait does so before this, or not at all.
    touched = sa.update(agent_runs).where(_R.id.in_(line))
    connection.execute(touched.values(cancelled=_R.cancelled))
    decided = connection.execute(
        sa.update(agent_calls)
        .where(
            _C.run_id == run_id,
            _C.step == step,
            _C.place == call.place,
            _C.state == CallState.INTERRUPTED,
        )
        .values(**call_values(call))
    )
    if not decided.rowcount:
        return False
    if not is_interrupted(connection, run_id):
        connection.execute(
            sa.update(agent_runs)
            .where(_R.id.in_(line), _R.status == RunStatus.INTERRUPTED)
            .values(status=RunStatus.IN_PROGRESS, **NOBODYS)
        )
    return True
