"""How ledger rows enter the tables: rows and their roll-ups together, or neither."""

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import fields
from operator import attrgetter
from typing import Any

import msgspec
import sqlalchemy as sa

from cache.counting import known_time
from cache.labels import LabelCaps, Series, series_of
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
    if connection.dialect.name == "postgresql":
        inserted = _insert_json(connection, first, series)
    else:
        inserted = _insert_values(connection, first, series)
    add_rows(connection, [first[key] for key in inserted], [series[key] for key in inserted])
    return len(inserted)


def _insert_values(
    connection: sa.Connection, rows: Mapping[str, LedgerRow], series: Mapping[str, Series]
) -> list[str]:
    """Insert rows that aren't there; returns the ids of those that weren't.

    Straight to SQLite's driver: SQLAlchemy's own way takes several times as long.
    """
    found = connection.exec_driver_sql(_FIND, (json.dumps(list(rows)),))
    there = {request_id for (request_id,) in found}
    new = [key for key in rows if key not in there]
    if new:
        values = [(*_as_sqlite(rows[key]), series[key][-1]) for key in new]
        connection.exec_driver_sql(_INSERT, values)
    return new


def _insert_json(
    connection: sa.Connection, rows: Mapping[str, LedgerRow], series: Mapping[str, Series]
) -> Sequence[str]:
    """The same for PostgreSQL."""
    values = [
        {**dict(zip(_COLUMNS, _values(row), strict=True)), "series": series[key][-1]}
        for key, row in rows.items()
    ]
    return connection.scalars(_INSERT_JSON, {"rows": _as_json(values)}).all()


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


def _values(row: LedgerRow) -> list[Any]:
    """In the order of `_COLUMNS`."""
    values = list(_read(row))
    for place, room in _TEXTS:
        text = values[place]
        if text is None or (len(text) <= room and text.isascii() and "\0" not in text):
            continue
        values[place] = _storable(text)[:room]
    for place in _TIMES:
        values[place] = known_time(values[place])
    return values


def _as_sqlite(row: LedgerRow) -> list[Any]:
    """As SQLite's columns hold them."""
    values = _values(row)
    values[_AT] = as_utc(values[_AT]).replace(tzinfo=None).isoformat(" ", "microseconds")
    for place in _OBJECTS:
        if values[place] is not None:
            values[place] = _json(values[place]) if values[place] else "{}"
    return values


def _json(value: Mapping[str, object]) -> str:
    try:
        return msgspec.json.encode(value).decode()
    except UnicodeEncodeError:  # a lone surrogate
        return json.dumps(value)


def _storable(text: str) -> str:
    """Text with what neither database takes replaced: lone surrogates and NUL."""
    return text.encode("utf-8", "replace").decode().replace("\0", "\ufffd")


_COLUMNS = tuple(field.name for field in fields(LedgerRow))
_read = attrgetter(*_COLUMNS)
_AT = _COLUMNS.index("at")
_OBJECTS = tuple(_COLUMNS.index(name) for name in ("divergence", "lost"))
_TIMES = tuple(_COLUMNS.index(name) for name in ("ttft_s", "e2e_s"))
# How much of a text a column takes. An id is never cut: two might become one.
_TEXTS = tuple(
    (_COLUMNS.index(column.name), column.type.length or sys.maxsize)
    for column in ledger.c
    if isinstance(column.type, sa.String) and not column.primary_key
)
_FIND = "SELECT request_id FROM ledger WHERE request_id IN (SELECT value FROM json_each(?))"
_INSERT = (
    f"INSERT INTO ledger ({', '.join((*_COLUMNS, 'series'))}) "
    f"VALUES ({', '.join('?' * (len(_COLUMNS) + 1))})"
)
