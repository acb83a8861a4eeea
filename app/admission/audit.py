"""The audit log: what operators did, by which key, in order. Rows are only ever added."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import anyio
import sqlalchemy as sa

from app.callers import Caller
from app.tables import audit_log

_TARGET = 255


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditEntry:
    """One action; `key_id` is None for the command line beside the database, and without keys."""

    id: int
    at: datetime
    key_id: str | None
    tenant: str
    action: str
    target: str
    details: Mapping[str, Any]


async def audit(
    database: sa.Engine, caller: Caller, action: str, target: str, **details: object
) -> None:
    """Write an operator's action down; it is durable when this returns.

    Args:
        action: a noun and a verb, as in `replica.drain`.
        target: what it was done to.
        details: more about it, as JSON takes it; never a secret.
    """

    def write() -> None:
        with database.begin() as connection:
            write_audit(connection, caller, action, target, details)

    await anyio.to_thread.run_sync(write)


def write_audit(
    connection: sa.Connection,
    caller: Caller,
    action: str,
    target: str,
    details: Mapping[str, object],
) -> None:
    """The same within a transaction: what was done and that it was done stand or fall together."""
    connection.execute(
        sa.insert(audit_log).values(
            at=datetime.now(UTC),
            key_id=caller.key_id,
            tenant=caller.tenant,
            action=action,
            target=target[:_TARGET],
            details=dict(details),
        )
    )


def read_audit(
    connection: sa.Connection, *, limit: int, before: int | None = None, action: str | None = None
) -> list[AuditEntry]:
    """The last actions, newest first; `before` is the id of one, to go on from it."""
    statement = sa.select(audit_log).order_by(audit_log.c.id.desc()).limit(limit)
    if before is not None:
        statement = statement.where(audit_log.c.id < before)
    if action is not None:
        statement = statement.where(audit_log.c.action == action)
    return [AuditEntry(**row) for row in connection.execute(statement).mappings()]
