"""How ledger rows enter the tables: rows and their roll-ups together, or neither."""

import json
from collections.abc import Sequence
from dataclasses import fields
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import sqlite

from cache.counting import known_time
from cache.labels import LabelCaps, series_of
from cache.ledger_row import LedgerRow, RequestStatus
from cache.rollups import add_rows
from cache.tables import as_utc, ledger
from cache.writers import be_the_only_writer

__all__ = ["UNSTORABLE", "LedgerRow", "RequestStatus", "insert_rows", "is_row_at_fault"]

_USUAL_CAPS = LabelCaps()
# Each row is in nine groupings, and a statement of SQLite takes 32,766 values.
_AT_ONCE = 1_000


def insert_rows(
    connection: sa.Connection, rows: Sequence[LedgerRow], *, caps: LabelCaps = _USUAL_CAPS
) -> int:
    """Insert rows and count them in the roll-ups; returns how many rows were new.

    A row whose `request_id` is already there is left as it is and counted no second time: the
    database says which rows it took.

    Raises:
        sqlalchemy.exc.SQLAlchemyError: the database refused; nothing of this call is kept once the
            caller's transaction rolls back.
    """
    pieces = [rows[start : start + _AT_ONCE] for start in range(0, len(rows), _AT_ONCE)]
    return sum(_insert_piece(connection, piece, caps) for piece in pieces)


def _insert_piece(connection: sa.Connection, rows: Sequence[LedgerRow], caps: LabelCaps) -> int:
    be_the_only_writer(connection)
    first: dict[str, LedgerRow] = {}
    for row in rows:
        first.setdefault(row.request_id, row)
    series = dict(zip(first, series_of(connection, list(first.values()), caps), strict=True))
    values = [_values(row) | {"series": series[key][-1]} for key, row in first.items()]
    inserted = _insert(connection, values)
    add_rows(connection, [first[key] for key in inserted], [series[key] for key in inserted])
    return len(inserted)


def _insert(connection: sa.Connection, values: Sequence[dict[str, Any]]) -> Sequence[str]:
    """Insert rows that aren't there; returns the ids of those that weren't."""
    if connection.dialect.name == "postgresql":
        return connection.scalars(_INSERT_JSON, {"rows": _as_json(values)}).all()
    return connection.scalars(_INSERT, values).all()


_INSERT = sqlite.insert(ledger).on_conflict_do_nothing().returning(ledger.c.request_id)
# One parameter instead of one a value: with thousands of those, psycopg takes seconds a batch.
_NAMES = ", ".join(ledger.c.keys())
_INSERT_JSON = sa.text(
    f"INSERT INTO ledger ({_NAMES}) SELECT {_NAMES} "
    "FROM json_populate_recordset(NULL::ledger, CAST(:rows AS json)) "
    "ON CONFLICT DO NOTHING RETURNING request_id"
)


def _as_json(values: Sequence[dict[str, Any]]) -> str:
    in_utc = [as_utc(row["at"]).isoformat() for row in values]
    rows = [row | {"at": at} for row, at in zip(values, in_utc, strict=True)]
    return json.dumps(rows, allow_nan=False)


# Raised bare where a value meets the driver: text or numbers that it has no place for.
UNSTORABLE = (OverflowError, TypeError, ValueError)


def is_row_at_fault(failure: Exception) -> bool:
    """Whether a row, not the database, is to blame: trying it again would never help."""
    if isinstance(failure, sa.exc.DBAPIError):
        return isinstance(failure, sa.exc.DataError | sa.exc.IntegrityError)
    return isinstance(failure, (sa.exc.StatementError, *UNSTORABLE))


def _values(row: LedgerRow) -> dict[str, object]:
    values: dict[str, Any] = {name: getattr(row, name) for name in _COLUMNS}
    for name, room in _ROOM.items():
        if values[name] is not None:
            values[name] = _storable(values[name])[:room]
    values |= {name: known_time(getattr(row, name)) for name in ("ttft_s", "e2e_s")}
    if row.prompt_text is not None:
        values["prompt_text"] = _storable(row.prompt_text)
    return values


def _storable(text: str) -> str:
    """Text with what neither database takes replaced: lone surrogates and NUL."""
    return text.encode("utf-8", "replace").decode().replace("\0", "\ufffd")


_COLUMNS = tuple(field.name for field in fields(LedgerRow))
# How much of a text a column takes. An id is never cut: two might become one.
_ROOM = {
    column.name: column.type.length
    for column in ledger.c
    if isinstance(column.type, sa.String) and column.type.length and not column.primary_key
}
