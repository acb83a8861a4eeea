"""Batches in the database: accepted, each answer and each end durable before it is told.

All calls block. A batch is worked on by one gateway at a time, which says so every few seconds;
what it doesn't finish another may take over.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol

import sqlalchemy as sa

from app.batches.lines import BatchLine, LineProblem
from app.batches.ordering import Place
from app.batches.records import (
    UNDER_WAY,
    WINDOW_S,
    Batch,
    BatchStatus,
    ResultLine,
    WaitingLine,
    problem_json,
)
from app.batches.results import result_lines
from app.errors import BatchEndedError, BatchNotFoundError
from app.leases import Lease
from app.tables import batch_lines, batches
from retrieval import Page, PageQuery
from retrieval.listing import select_page

OWNED_S = 60.0
_LEASE = Lease(batches, seconds=OWNED_S)
_ROWS = 500


class Told(Protocol):
    """Whoever tells of ends; what it writes is committed with them."""

    def ended(self, connection: sa.Connection, batch: Batch, at: float) -> None:
        """A batch has come to its end, as it says."""


class BatchStore:
    """The batches of all tenants.

    Attributes:
        changed: told, on the event loop, when something is to be done at once; replaced by whoever
            does it.
    """

    def __init__(self, database: sa.Engine, *, told: Told) -> None:
        self._database = database
        self._told = told
        self.changed: Callable[[], None] = _nobody

    def create(
        self,
        *,
        tenant: str,
        endpoint: str,
        input_file_id: str,
        metadata: Mapping[str, str] | None,
        now: float,
    ) -> Batch:
        """A new batch; it is kept when this returns."""
        batch_id = f"batch_{os.urandom(16).hex()}"
        row = {
            "id": batch_id,
            "tenant": tenant,
            "endpoint": endpoint,
            "input_file_id": input_file_id,
            "status": BatchStatus.VALIDATING,
            "problems": [],
            "details": {"metadata": None if metadata is None else dict(metadata)},
            "times": {"created": int(now)},
            "expires_at": int(now) + WINDOW_S,
            "total": 0,
            "completed": 0,
            "failed": 0,
            "owned_until": 0.0,
        }
        with self._database.begin() as connection:
            connection.execute(sa.insert(batches).values(**row))
        return self.get(batch_id, tenant=tenant)

    def get(self, batch_id: str, *, tenant: str) -> Batch:
        """A tenant's batch.

        Raises:
            BatchNotFoundError: it has none of this id.
        """
        with self._database.connect() as connection:
            return _found(connection, batch_id, tenant)

    def page(self, page: PageQuery, *, tenant: str) -> Page[Batch]:
        """A page of a tenant's batches.

        Raises:
            NotInListError: it is to begin or end at one that isn't among them.
        """
        query = sa.select(batches).where(batches.c.tenant == tenant)
        with self._database.connect() as connection:
            found = select_page(connection, query, page, id=batches.c.id, serial=batches.c.serial)
        return Page(items=tuple(map(_batch, found.items)), has_more=found.has_more)

    def cancel(self, batch_id: str, *, tenant: str, now: float) -> Batch:
        """No further request of it is sent from now on; to say so twice does no harm.

        Raises:
            BatchNotFoundError: the tenant has none of this id.
            BatchEndedError: there is nothing left to cancel.
        """
        with self._database.begin() as connection:
            batch = _found(connection, batch_id, tenant)
            running = (BatchStatus.VALIDATING, BatchStatus.IN_PROGRESS)
            changed = connection.execute(
                sa.update(batches)
                .where(batches.c.id == batch_id, batches.c.status.in_(running))
                .values(
                    status=BatchStatus.CANCELLING,
                    times={**batch.times, "cancelling": int(now)},
                )
            )
            batch = _found(connection, batch_id, tenant)
        if not changed.rowcount and batch.status not in (
            BatchStatus.CANCELLING,
            BatchStatus.CANCELLED,
        ):
            raise BatchEndedError(batch_id, batch.status.value)
        return batch

    def claim(self, owner: str, now: float) -> list[Batch]:
        """The batches that this gateway works on, the oldest first; others' are left alone."""
        under_way = batches.c.status.in_(UNDER_WAY)
        mine = sa.select(sa.func.count()).where(under_way, _LEASE.open_to(owner, now))
        with self._database.begin() as connection:
            if connection.scalar(mine) == 0:
                return []
            connection.execute(_LEASE.take(owner, now, under_way, _LEASE.due(now)))
            held = sa.select(batches).where(under_way, _LEASE.held_by(owner))
            return [_batch(row) for row in connection.execute(held.order_by(batches.c.serial))]

    def accept(
        self, batch: Batch, lines: Sequence[BatchLine], places: Sequence[Place], now: float
    ) -> None:
        """Its file is as it should be: all its requests are kept, in the order of their turns."""
        rows = [
            {
                "batch_id": batch.id,
                "number": number,
                "place": place,
                "leads": leads,
                "custom_id": lines[number].custom_id,
                "body": lines[number].body,
                "done": False,
            }
            for place, (number, leads) in enumerate(places)
        ]
        with self._database.begin() as connection:
            values = {
                "status": BatchStatus.IN_PROGRESS,
                "total": len(rows),
                "times": {**batch.times, "in_progress": int(now)},
            }
            if self._change(connection, batch.id, BatchStatus.VALIDATING, values):
                for start in range(0, len(rows), _ROWS):
                    connection.execute(sa.insert(batch_lines), rows[start : start + _ROWS])

    def refuse(self, batch: Batch, problems: Iterable[LineProblem], now: float) -> None:
        """Its file is at fault; nothing of it is sent."""
        values = {
            "status": BatchStatus.FAILED,
            "problems": [problem_json(problem) for problem in problems],
            "times": {**batch.times, "failed": int(now)},
        }
        with self._database.begin() as connection:
            if self._change(connection, batch.id, BatchStatus.VALIDATING, values):
                self._told.ended(connection, _found(connection, batch.id, batch.tenant), now)

    def waiting(self, batch_id: str, *, after: int, limit: int) -> list[WaitingLine]:
        """The next requests that have no answer, in the order of their turns."""
        c = batch_lines.c
        query = (
            sa.select(c.number, c.place, c.leads, c.custom_id, c.body)
            .where(c.batch_id == batch_id, c.done.is_(False), c.place > after)
            .order_by(c.place)
            .limit(limit)
        )
        with self._database.connect() as connection:
            rows = connection.execute(query).all()
        return [WaitingLine(**row._mapping) for row in rows]

    def leading(self, batch_id: str) -> int:
        """How many requests that lead have no answer."""
        c = batch_lines.c
        query = sa.select(sa.func.count()).where(
            c.batch_id == batch_id, c.done.is_(False), c.leads.is_(True)
        )
        with self._database.connect() as connection:
            return connection.scalar(query) or 0

    def keep(self, batch_id: str, number: int, result: bytes, *, succeeded: bool) -> None:
        """A request's line of output; only its first answer is kept."""
        c = batch_lines.c
        done = sa.update(batch_lines).where(
            c.batch_id == batch_id, c.number == number, c.done.is_(False)
        )
        count = batches.c.completed if succeeded else batches.c.failed
        with self._database.begin() as connection:
            values = {"done": True, "succeeded": succeeded, "result": result, "body": b""}
            if connection.execute(done.values(**values)).rowcount:
                counted = sa.update(batches).where(batches.c.id == batch_id)
                connection.execute(counted.values({count: count + 1}))

    def results(self, batch_id: str, ended: BatchStatus) -> Iterator[ResultLine]:
        """What came of its requests, in the order of its file; read as it is asked for."""
        return result_lines(self._database, batch_id, ended)

    def end(
        self,
        batch: Batch,
        ended: BatchStatus,
        *,
        output_file_id: str | None,
        error_file_id: str | None,
        now: float,
    ) -> None:
        """Its files are stored: it has ended, and its requests are no longer needed."""
        values = {
            "status": ended,
            "output_file_id": output_file_id,
            "error_file_id": error_file_id,
            "times": {**batch.times, "finalizing": int(now), ended.value: int(now)},
            # Those that weren't answered stand in the file of errors, too.
            "failed": batches.c.total - batches.c.completed,
        }
        with self._database.begin() as connection:
            if self._change(connection, batch.id, batch.status, values):
                gone = batch_lines.c.batch_id == batch.id
                connection.execute(sa.delete(batch_lines).where(gone))
                self._told.ended(connection, _found(connection, batch.id, batch.tenant), now)

    @staticmethod
    def _change(
        connection: sa.Connection, batch_id: str, was: BatchStatus, values: Mapping[str, Any]
    ) -> bool:
        """Whether it still stood so, and is changed: a cancellation may have been faster."""
        which = (batches.c.id == batch_id, batches.c.status == was)
        changed = connection.execute(sa.update(batches).where(*which).values(**values))
        return bool(changed.rowcount)


def _nobody() -> None:
    """It is seen at the next look."""


def _found(connection: sa.Connection, batch_id: str, tenant: str) -> Batch:
    """Raises BatchNotFoundError."""
    query = sa.select(batches).where(batches.c.id == batch_id, batches.c.tenant == tenant)
    row = connection.execute(query).one_or_none()
    if row is None:
        raise BatchNotFoundError(batch_id)
    return _batch(row)


def _batch(row: sa.Row[Any]) -> Batch:
    return Batch(
        id=row.id,
        tenant=row.tenant,
        endpoint=row.endpoint,
        input_file_id=row.input_file_id,
        output_file_id=row.output_file_id,
        error_file_id=row.error_file_id,
        status=BatchStatus(row.status),
        problems=row.problems,
        metadata=row.details.get("metadata"),
        created_at=row.times["created"],
        expires_at=row.expires_at,
        times=row.times,
        total=row.total,
        completed=row.completed,
        failed=row.failed,
    )
