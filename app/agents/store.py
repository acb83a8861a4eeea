"""Runs in the database. What is written here is durable when the call returns.

A run belongs to the gateway that works on it, for as long as that says it lives; whatever another
one writes then is refused. So a call that was begun by a gateway that seemed dead is never begun
again by mistake.
"""

import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import sqlalchemy as sa

from app.agents.loop import Call, RunStatus
from app.agents.records import Parent, RunRecord, StepRecord
from app.agents.rows import (
    call_values,
    delete_runs,
    insert_step,
    read_steps,
    run_of,
    run_values,
)
from app.errors import NotStoredError
from app.stored.records import SaidItem, may_be_id
from app.tables import agent_calls, agent_runs, conversations, stored_responses

_R, _C = agent_runs.c, agent_calls.c
_OPEN = (RunStatus.IN_PROGRESS, RunStatus.INTERRUPTED)
# Longer than any run: its conversation is given free by its end, or by nothing.
_FOR_EVER = 1e12


class RunLostError(NotStoredError):
    """The run is no longer this gateway's: another one goes on with it, or it was deleted."""

    def __init__(self, run_id: str) -> None:
        super().__init__(f"run {run_id} was taken over by another gateway, or deleted")


class RunStore:
    """To be called in worker threads.

    Args:
        owner: who works here; another one after each start.
        lease_s: how long a run is its gateway's after the last word of that.
        now: seconds since 1970.
    """

    def __init__(
        self,
        database: sa.Engine,
        *,
        owner: str,
        lease_s: float,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._database = database
        self._owner = owner
        self._lease_s = lease_s
        self._now = now

    def begin(self, run: RunRecord) -> None:
        """A new run, this gateway's; its conversation is its own until it ends, however many
        gateways die before that."""
        with self._database.begin() as connection:
            owned = {"owner": self._owner, "owned_until": self._now() + self._lease_s}
            connection.execute(sa.insert(agent_runs).values(**run_values(run), **owned))
            if run.conversation_id is not None:
                connection.execute(
                    sa.update(conversations)
                    .where(
                        conversations.c.id == run.conversation_id,
                        conversations.c.turn == run.id,
                    )
                    .values(turn_until=_FOR_EVER)
                )

    def find(self, run_id: str, *, tenant: str | None = None) -> RunRecord | None:
        """A run of a tenant's, or of anybody's."""
        if not may_be_id(run_id):
            return None
        found = sa.select(agent_runs).where(_R.id == run_id)
        if tenant is not None:
            found = found.where(_R.tenant == tenant)
        with self._database.connect() as connection:
            row = connection.execute(found).one_or_none()
        return None if row is None else run_of(row)

    def child(self, parent: Parent) -> RunRecord | None:
        """The run of a sub-agent."""
        found = sa.select(agent_runs).where(
            _R.parent_id == parent.run_id,
            _R.parent_step == parent.step,
            _R.parent_place == parent.place,
        )
        with self._database.connect() as connection:
            row = connection.execute(found).one_or_none()
        return None if row is None else run_of(row)

    def children(self, run_id: str) -> list[RunRecord]:
        """The runs of its sub-agents, in their order."""
        found = sa.select(agent_runs).where(_R.parent_id == run_id)
        with self._database.connect() as connection:
            rows = connection.execute(found.order_by(_R.parent_step, _R.parent_place)).all()
        return [run_of(row) for row in rows]

    def page(self, *, tenant: str, limit: int) -> list[RunRecord]:
        """A tenant's newest runs, sub-agents' left out."""
        found = sa.select(agent_runs).where(_R.tenant == tenant, _R.parent_id.is_(None))
        with self._database.connect() as connection:
            rows = connection.execute(found.order_by(_R.created_at.desc()).limit(limit)).all()
        return [run_of(row) for row in rows]

    def steps(self, run_id: str) -> list[StepRecord]:
        """What was done so far."""
        with self._database.connect() as connection:
            return read_steps(connection, run_id)

    def take(self, run_id: str) -> RunRecord | None:
        """Make a run this gateway's that no other works on; None: one does, or it has ended."""
        now = self._now()
        with self._database.begin() as connection:
            taken = connection.execute(
                sa.update(agent_runs)
                .where(
                    _R.id == run_id,
                    _R.status == RunStatus.IN_PROGRESS,
                    sa.or_(_R.owner.is_(None), _R.owned_until < now, _R.owner == self._owner),
                )
                .values(owner=self._owner, owned_until=now + self._lease_s)
            )
            if taken.rowcount == 0:
                return None
            return run_of(connection.execute(sa.select(agent_runs).where(_R.id == run_id)).one())

    def left_behind(self, *, but: Iterable[str]) -> list[str]:
        """Runs that nobody works on and nobody else will go on with."""
        found = sa.select(_R.id).where(
            _R.status == RunStatus.IN_PROGRESS,
            _R.parent_id.is_(None),
            _R.driven.is_(False),
            sa.or_(_R.owner.is_(None), _R.owned_until < self._now()),
        )
        with self._database.connect() as connection:
            ids = connection.execute(found.order_by(_R.created_at)).scalars().all()
        known = frozenset(but)
        return [run_id for run_id in ids if run_id not in known]

    def keep_alive(self, run_ids: Iterable[str]) -> list[str]:
        """Say that these are worked on; those of them that somebody wants to have cancelled."""
        ids = list(run_ids)
        with self._database.begin() as connection:
            connection.execute(
                sa.update(agent_runs)
                .where(_R.id.in_(ids), _R.owner == self._owner)
                .values(owned_until=self._now() + self._lease_s)
            )
            cancelled = sa.select(_R.id).where(_R.id.in_(ids), _R.cancelled.is_(True))
            return list(connection.execute(cancelled).scalars())

    def let_go(self, run_id: str) -> None:
        """Whoever is next may go on with it now."""
        with self._database.begin() as connection:
            connection.execute(
                sa.update(agent_runs)
                .where(_R.id == run_id, _R.owner == self._owner)
                .values(owner=None, owned_until=0.0)
            )

    def keep_step(
        self, run_id: str, step: StepRecord, *, seconds: float, asked: Sequence[SaidItem]
    ) -> None:
        """A step that the model has answered; `asked` is the run's input, as it is kept now.

        Raises:
            RunLostError: the run is another's now.
        """
        with self._database.begin() as connection:
            first = {"input": [dict(item.item) for item in asked]} if step.number == 0 else {}
            self._own(connection, run_id, seconds=seconds, **first)
            insert_step(connection, run_id, step)

    def keep_call(self, run_id: str, step: int, call: Call, *, seconds: float) -> None:
        """How far a call is: before it is begun, and when its result is there.

        Raises:
            RunLostError: the run is another's now.
        """
        with self._database.begin() as connection:
            self._own(connection, run_id, seconds=seconds)
            write_call(connection, run_id, step, call)

    def interrupt(self, run_id: str, *, seconds: float) -> bool:
        """It waits for somebody's decision; False: that was made meanwhile, and it doesn't.

        Raises:
            RunLostError: the run is another's now.
        """
        with self._database.begin() as connection:
            self._own(connection, run_id, seconds=seconds)
            children = sa.select(sa.func.count()).where(
                _R.parent_id == run_id, _R.status == RunStatus.INTERRUPTED
            )
            if not _interrupted(connection, run_id) and not connection.scalar(children):
                return False
            free = {"owner": None, "owned_until": 0.0}
            self._own(connection, run_id, status=RunStatus.INTERRUPTED, **free)
            return True

    def end(
        self,
        run_id: str,
        status: RunStatus,
        *,
        reason: str | None,
        seconds: float,
        response: dict[str, Any] | None,
        also: Callable[[sa.Connection], None] | None = None,
    ) -> None:
        """The run is over; `also` is done in the same transaction.

        Raises:
            RunLostError: the run is another's now.
        """
        with self._database.begin() as connection:
            over = {"owner": None, "ended_at": self._now(), "response": response}
            self._own(connection, run_id, seconds=seconds, status=status, reason=reason, **over)
            _end_children(connection, run_id, ended_at=self._now())
            if also is not None:
                also(connection)

    def forget(self, run_id: str) -> None:
        """It never was."""
        with self._database.begin() as connection:
            delete_runs(connection, _R.id == run_id)

    def cancel(self, run_id: str, *, tenant: str) -> RunRecord | None:
        """Note that it is to end; the run as it then stands. None: the tenant has none such."""
        wanted = (_R.id == run_id, _R.tenant == tenant)
        with self._database.begin() as connection:
            connection.execute(
                sa.update(agent_runs)
                .where(*wanted, _R.status.in_(_OPEN))
                .values(cancelled=True, status=RunStatus.IN_PROGRESS)
            )
            row = connection.execute(sa.select(agent_runs).where(*wanted)).one_or_none()
        return None if row is None else run_of(row)

    def decide(self, run_id: str, line: Sequence[str], step: int, call: Call) -> None:
        """What is to be done about a call that was interrupted. With the last one the run goes on,
        and with it those that it works for (`line`, itself among them).

        Raises:
            RunLostError: it isn't interrupted any more.
        """
        now_in_progress = {"status": RunStatus.IN_PROGRESS, "owner": None, "owned_until": 0.0}
        with self._database.begin() as connection:
            # A write first: whoever is about to let it wait does so before this, or not at all.
            touched = sa.update(agent_runs).where(_R.id.in_(line))
            connection.execute(touched.values(cancelled=_R.cancelled))
            decided = connection.execute(
                sa.update(agent_calls)
                .where(
                    _C.run_id == run_id,
                    _C.step == step,
                    _C.place == call.place,
                    _C.state == "interrupted",
                )
                .values(**call_values(call))
            )
            if decided.rowcount == 0:
                raise RunLostError(run_id)
            if not _interrupted(connection, run_id):
                connection.execute(
                    sa.update(agent_runs)
                    .where(_R.id.in_(line), _R.status == RunStatus.INTERRUPTED)
                    .values(**now_in_progress)
                )

    def given_up(self) -> list[str]:
        """Runs that somebody else drove whose response was cancelled or deleted meanwhile."""
        found = (
            sa.select(_R.id, stored_responses.c.response)
            .outerjoin(stored_responses, stored_responses.c.id == _R.id)
            .where(
                _R.driven.is_(True),
                _R.status.in_(_OPEN),
                sa.or_(_R.owner.is_(None), _R.owned_until < self._now()),
            )
        )
        with self._database.connect() as connection:
            rows = connection.execute(found).all()
        return [
            row.id
            for row in rows
            if row.response is None or row.response["status"] not in ("queued", "in_progress")
        ]

    def abandon(self, run_id: str) -> None:
        """Cancel a run that nobody works on; its conversation is as it was before it."""
        with self._database.begin() as connection:
            ended_at = self._now()
            done = connection.execute(
                sa.update(agent_runs)
                .where(
                    _R.id == run_id,
                    _R.status.in_(_OPEN),
                    sa.or_(_R.owner.is_(None), _R.owned_until < ended_at),
                )
                .values(status=RunStatus.CANCELLED, ended_at=ended_at, owner=None)
            )
            if done.rowcount:
                _end_children(connection, run_id, ended_at=ended_at)
                connection.execute(
                    sa.update(conversations)
                    .where(conversations.c.turn == run_id)
                    .values(turn=None, turn_until=None)
                )
                kept = sa.select(stored_responses.c.id).where(stored_responses.c.id == run_id)
                if connection.execute(kept).first() is None:
                    delete_runs(connection, _R.id == run_id)

    def sweep(self, *, before: float) -> None:
        """Delete runs that ended before and whose response isn't kept any more."""
        kept = sa.select(stored_responses.c.id)
        with self._database.begin() as connection:
            gone = sa.and_(
                _R.parent_id.is_(None),
                _R.ended_at.is_not(None),
                _R.ended_at < before,
                _R.id.not_in(kept),
            )
            delete_runs(connection, gone)

    def _own(self, connection: sa.Connection, run_id: str, **values: Any) -> None:
        """Raises RunLostError: the run is another's now."""
        # A write first, so that nobody takes it over meanwhile.
        done = connection.execute(
            sa.update(agent_runs)
            .where(_R.id == run_id, _R.owner == self._owner, _R.status == RunStatus.IN_PROGRESS)
            .values(**({"owned_until": self._now() + self._lease_s} | values))
        )
        if done.rowcount == 0:
            raise RunLostError(run_id)


def _interrupted(connection: sa.Connection, run_id: str) -> bool:
    """Whether a call of it waits for a decision."""
    found = sa.select(sa.func.count()).where(_C.run_id == run_id, _C.state == "interrupted")
    return bool(connection.scalar(found))


def _end_children(connection: sa.Connection, run_id: str, *, ended_at: float) -> None:
    """Sub-agents whose parent has ended work for nobody."""
    left = sa.select(_R.id).where(_R.parent_id == run_id, _R.status.in_(_OPEN))
    for child in list(connection.execute(left).scalars()):
        connection.execute(
            sa.update(agent_runs)
            .where(_R.id == child)
            .values(status=RunStatus.CANCELLED, ended_at=ended_at, owner=None)
        )
        _end_children(connection, child, ended_at=ended_at)


def write_call(connection: sa.Connection, run_id: str, step: int, call: Call) -> None:
    """How a call stands, in a transaction of the caller's."""
    connection.execute(
        sa.update(agent_calls)
        .where(_C.run_id == run_id, _C.step == step, _C.place == call.place)
        .values(**call_values(call))
    )
