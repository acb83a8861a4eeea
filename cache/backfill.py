"""Rows that were written before there were roll-ups are counted in them, once."""

from collections.abc import Sequence
from dataclasses import fields

import sqlalchemy as sa

from cache.labels import LabelCaps, series_of
from cache.ledger_row import LedgerRow, RequestStatus
from cache.rollups import add_rows
from cache.tables import ledger
from cache.writers import be_the_only_writer

_CHUNK = 1_000  # no more, for the same reason as in `cache.rows`
_NAMES = tuple(field.name for field in fields(LedgerRow))


def count_rows_once(connection: sa.Connection, caps: LabelCaps) -> int:
    """Give every row without a series one, and count it; returns how many there were.

    All in the caller's transaction: rows are counted all or none, so that doing it again after a
    crash counts none twice.
    """
    be_the_only_writer(connection)
    counted = 0
    last = ""
    while rows := _after(connection, last):
        series = series_of(connection, rows, caps)
        keys = [
            {"id": row.request_id, "number": numbers[-1]}
            for row, numbers in zip(rows, series, strict=True)
        ]
        connection.execute(_SET_SERIES, keys)
        add_rows(connection, rows, series)
        counted += len(rows)
        last = rows[-1].request_id
    return counted


_SET_SERIES = (
    sa.update(ledger)
    .where(ledger.c.request_id == sa.bindparam("id"))
    .values(series=sa.bindparam("number"))
)


def _after(connection: sa.Connection, request_id: str) -> Sequence[LedgerRow]:
    """The next rows without a series in the order of their ids."""
    statement = (
        sa.select(*(ledger.c[name] for name in _NAMES))
        .where(ledger.c.series.is_(None), ledger.c.request_id > request_id)
        .order_by(ledger.c.request_id)
        .limit(_CHUNK)
    )
    return [
        LedgerRow(**{**values, "status": RequestStatus(values["status"])})
        for values in connection.execute(statement).mappings()
    ]
