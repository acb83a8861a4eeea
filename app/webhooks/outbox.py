"""What is still to be told, in the database: written with what it tells of, gone when heard."""

import math
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from hashlib import sha256

import orjson
import sqlalchemy as sa

from app.batches.records import Batch
from app.tables import webhook_deliveries

# Seconds after each attempt until the next, as the Standard Webhooks specification proposes.
PAUSES_S = (5, 300, 1800, 7200, 18_000, 36_000, 50_400, 72_000, 86_400)
_AT_ONCE = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """Who is told of a tenant's events; None is of all tenants'."""

    url: str
    key: bytes
    tenant: str | None

    @property
    def name(self) -> str:
        """What it is called in the database, where neither URL nor secret stands."""
        return sha256(f"{self.tenant}\0{self.url}".encode()).hexdigest()[:32]


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """An event for one endpoint; `attempts` counts this one."""

    id: str
    endpoint: str
    body: bytes
    attempts: int

    @property
    def is_last(self) -> bool:
        """Whether there is no other attempt after this one."""
        return self.attempts > len(PAUSES_S)


class Outbox:
    """Keeps events until they were heard. Blocks.

    Attributes:
        changed: told, in whatever thread, once something is committed that is to be told; replaced
            by whoever tells.
    """

    def __init__(self, database: sa.Engine, endpoints: Sequence[Endpoint]) -> None:
        self._database = database
        self.endpoints = {endpoint.name: endpoint for endpoint in endpoints}
        self.changed: Callable[[], None] = _nobody
        # An event is written in a transaction of somebody else's: that is over, one way or the
        # other, when its connection comes back.
        sa.event.listen(database, "checkin", self._came_back)

    def ended(self, connection: sa.Connection, batch: Batch, at: float) -> None:
        """A batch has come to its end; committed with it, or not at all."""
        kind = f"batch.{batch.status.value}"
        self._write(connection, kind, batch.id, tenant=batch.tenant, at=at)

    def response_ended(
        self, connection: sa.Connection, response_id: str, *, tenant: str, status: str, at: float
    ) -> None:
        """A response of the background has; the same holds."""
        self._write(connection, f"response.{status}", response_id, tenant=tenant, at=at)

    def _write(
        self, connection: sa.Connection, kind: str, about: str, *, tenant: str, at: float
    ) -> None:
        event_id = f"evt_{os.urandom(16).hex()}"
        event = {
            "id": event_id,
            "object": "event",
            "type": kind,
            "created_at": int(at),
            "data": {"id": about},
        }
        told = [name for name, e in self.endpoints.items() if e.tenant in (None, tenant)]
        row = {"id": event_id, "body": orjson.dumps(event), "attempts": 0, "due_at": at}
        if told:
            rows = [{**row, "endpoint": name} for name in told]
            connection.execute(sa.insert(webhook_deliveries), rows)
            connection.info[self] = True

    def _came_back(self, _: object, record: sa.pool.ConnectionPoolEntry) -> None:
        if record.info.pop(self, False):
            self.changed()

    def take(self, now: float) -> tuple[list[Delivery], float]:
        """What is due, each with its next attempt set already: nobody else takes it meanwhile.

        Also when something is due next: in seconds since 1970, infinite where nothing is.
        """
        c = webhook_deliveries.c
        first = sa.select(webhook_deliveries).order_by(c.due_at).limit(_AT_ONCE + 1)
        taken: list[Delivery] = []
        with self._database.begin() as connection:
            rows = connection.execute(first).all()
            due = [row for row in rows[:_AT_ONCE] if row.due_at <= now]
            next_at = rows[len(due)].due_at if len(rows) > len(due) else math.inf
            for row in due:
                again_at = now + PAUSES_S[min(row.attempts, len(PAUSES_S) - 1)]
                next_at = min(next_at, again_at)
                mine = sa.update(webhook_deliveries).where(
                    c.id == row.id, c.endpoint == row.endpoint, c.attempts == row.attempts
                )
                values = {"attempts": row.attempts + 1, "due_at": again_at}
                if connection.execute(mine.values(**values)).rowcount:
                    taken.append(
                        Delivery(
                            id=row.id,
                            endpoint=row.endpoint,
                            body=row.body,
                            attempts=row.attempts + 1,
                        )
                    )
        return taken, next_at

    def done(self, delivery: Delivery) -> None:
        """It was heard, or nobody will ever hear it."""
        c = webhook_deliveries.c
        with self._database.begin() as connection:
            connection.execute(
                sa.delete(webhook_deliveries).where(
                    c.id == delivery.id, c.endpoint == delivery.endpoint
                )
            )


def _nobody() -> None:
    """It is seen at the next look."""
