"""One request's row, read back from the ledger."""

from dataclasses import fields
from typing import Any

import sqlalchemy as sa

from cache.ledger_row import LedgerRow, RequestStatus
from cache.tables import ledger

_COLUMNS = tuple(field.name for field in fields(LedgerRow))


def find_row(connection: sa.Connection, request_id: str) -> LedgerRow | None:
    """The row of a request; None where there is none, or none any more."""
    return _row(connection, _SELECT.where(ledger.c.request_id == request_id))


def find_last_row(connection: sa.Connection, *, tenant: str | None = None) -> LedgerRow | None:
    """The row of the request that ended last, of a tenant if one is named; None: there is none."""
    last = _SELECT.order_by(ledger.c.at.desc()).limit(1)
    return _row(connection, last if tenant is None else last.where(ledger.c.tenant == tenant))


_SELECT = sa.select(*(ledger.c[name] for name in _COLUMNS))


def _row(connection: sa.Connection, statement: sa.Select[Any]) -> LedgerRow | None:
    found = connection.execute(statement).mappings().one_or_none()
    if found is None:
        return None
    values: dict[str, Any] = dict(found)
    return LedgerRow(**values | {"status": RequestStatus(values["status"])})
