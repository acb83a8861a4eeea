"""Runs in the database. What is written here is durable when the call returns.

A run belongs to the gateway that works on it, for as long as that says it lives; whatever another
one writes then is refused. So a call that was begun by a gateway that seemed dead is never begun
again by mistake.
"""

import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import sqlalchemy as sa

from app.agents import left_runs
from app.agents.loop import Call, RunStatus
from app.agents.records import Parent, RunRecord, StepRecord
from app.agents.rows import (
    OPEN,
    delete_runs,
    end_children,
    has_interrupted,
    insert_run,
    insert_step,
    is_interrupted,
    read_steps,
    run_of,
    write_call,
)
from app.errors import NotStoredError
from app.leases import NOBODYS, Lease
from app.stored.records import SaidItem, may_be_id
from app.tables import agent_runs

_R = agent_runs.c


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
        self._lease = Lease(agent_runs, seconds=lease_s)
        self._now = now

    def begin(self, run: RunRecord) -> None:
        """A new run, this gateway's; its conversation is its own until it ends, however many
        gateways die before that."""
        with self._database.begin() as connection:
            insert_run(connection, run, self._lease.values(self._owner, self._now()))

    def find(self, run_id: str, *, tenant: str | None = None) -> RunRecord | None:
        """A run of a tenant's, or of anybody's."""
        if not may_be_id(run_id):
            return None
        found = sa.select(agent_runs).where(_R.id == run_id)
        if tenant is not None:
            found = found.where(_R.tenant == tenant)
        return next(iter(self._read(found)), None)

    def child(self, parent: Parent) -> RunRecord | None:
        """The run of a sub-agent."""
        found = sa.select(agent_runs).where(
            _R.parent_id == parent.run_id,
            _R.parent_step == parent.step,
            _R.parent_place == parent.place,
        )
        return next(iter(self._read(found)), None)

    def children(self, run_id: str) -> list[RunRecord]:
        """The runs of its sub-agents, in their order."""
        found = sa.select(agent_runs).where(_R.parent_id == run_id)
        return self._read(found.order_by(_R.parent_step, _R.parent_place))

    def page(self, *, tenant: str, limit: int) -> list[RunRecord]:
        """A tenant's newest runs, sub-agents' left out."""
        found = sa.select(agent_runs).where(_R.tenant == tenant, _R.parent_id.is_(None))
        return self._read(found.order_by(_R.created_at.desc()).limit(limit))

    def steps(self, run_id: str) -> list[StepRecord]:
        """What was done so far."""
        with self._database.connect() as connection:
            return read_steps(connection, run_id)

    def take(self, run_id: str) -> RunRecord | None:
        """Make a run this gateway's that no other works on; None: one does, or it has ended."""
        which = (_R.id == run_id, _R.status == RunStatus.IN_PROGRESS)
        with self._database.begin() as connection:
            taken = connection.execute(self._lease.take(self._owner, self._now(), *which))
            if taken.rowcount == 0:
                return None
            return run_of(connection.execute(sa.select(agent_runs).where(_R.id == run_id)).one())

    def left_behind(self, *, but: Iterable[str]) -> list[str]:
        """Runs that nobody works on and nobody else will go on with."""
        with self._database.connect() as connection:
            ids = left_runs.left_behind(connection, self._free())
        known = frozenset(but)
        return [run_id for run_id in ids if run_id not in known]

    def next_free(self) -> float | None:
        """In how many seconds the next run is left behind, if no more is heard of its gateway."""
        now, which = self._now(), (_R.status.in_(OPEN), _R.parent_id.is_(None))
        with self._database.connect() as connection:
            until = connection.scalar(self._lease.next_free(now, *which))
        return None if until is None else until - now

    def keep_alive(self, run_ids: Iterable[str]) -> list[str]:
        """Say that these are worked on; those of them that somebody wants to have cancelled."""
        ids = list(run_ids)
        with self._database.begin() as connection:
            connection.execute(self._lease.renew(self._owner, self._now(), _R.id.in_(ids)))
            cancelled = sa.select(_R.id).where(_R.id.in_(ids), _R.cancelled.is_(True))
            return list(connection.execute(cancelled).scalars())

    def let_go(self, run_id: str) -> None:
        """Whoever is next may go on with it now."""
        with self._database.begin() as connection:
            mine = self._lease.held_by(self._owner)
            connection.execute(self._lease.let_go(_R.id == run_id, mine))

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
            if not (is_interrupted(connection, run_id) or has_interrupted(connection, run_id)):
                return False
            self._own(connection, run_id, status=RunStatus.INTERRUPTED, **NOBODYS)
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
    ) -> list[RunRecord]:
        """The run is over; those of its sub-agents that end. `also` is done in the transaction.

        Raises:
            RunLostError: the run is another's now.
        """
        with self._database.begin() as connection:
            over = {"owner": None, "ended_at": self._now(), "response": response}
            self._own(connection, run_id, seconds=seconds, status=status, reason=reason, **over)
            stopped = end_children(connection, run_id, ended_at=self._now())
            if also is not None:
                also(connection)
        return stopped

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
                .where(*wanted, _R.status.in_(OPEN))
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
        with self._database.begin() as connection:
            if not left_runs.decide(connection, run_id, line, step, call):
                raise RunLostError(run_id)

    def given_up(self) -> list[str]:
        """Runs that somebody else drove whose response was cancelled or deleted meanwhile."""
        with self._database.connect() as connection:
            return left_runs.given_up(connection, self._free())

    def abandon(self, run_id: str) -> list[RunRecord]:
        """Cancel a run that nobody works on; those that end. Its conversation is as it was."""
        with self._database.begin() as connection:
            return left_runs.abandon(connection, run_id, self._free(), ended_at=self._now())

    def sweep(self, *, before: float) -> None:
        """Delete runs that ended before and whose response isn't kept any more."""
        with self._database.begin() as connection:
            left_runs.sweep(connection, before=before)

    def _read(self, found: sa.Select[Any]) -> list[RunRecord]:
        with self._database.connect() as connection:
            return [run_of(row) for row in connection.execute(found)]

    def _free(self) -> sa.ColumnElement[bool]:
        return self._lease.free(self._now())

    def _own(self, connection: sa.Connection, run_id: str, **values: Any) -> None:
        """Raises RunLostError: the run is another's now."""
        # A write first, so that nobody takes it over meanwhile.
        which = (_R.id == run_id, _R.status == RunStatus.IN_PROGRESS)
        own = self._lease.renew(self._owner, self._now(), *which).values(**values)
        if connection.execute(own).rowcount == 0:
            raise RunLostError(run_id)
