"""Sums by hour and by day, kept up to date by whoever writes rows, in the same transaction.

The database itself adds to the sums; histograms are read, added to and written back, which is exact
because there is one writer at a time (`cache.writers`).
"""

import json
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
import sqlalchemy as sa

from cache.counting import Numbers, figures_of, times_of
from cache.figures import FIGURES, TIMES
from cache.histogram_arrays import Counts, decoded, encoded, summed
from cache.labels import Series
from cache.ledger_row import LedgerRow
from cache.tables import GROUPINGS, ledger_days, ledger_hours

HOUR_S = 3_600
DAY_S = 24 * HOUR_S

_Place = tuple[int, int, int]  # place in `GROUPINGS`, start in seconds since 1970, series


def add_rows(
    connection: sa.Connection, rows: Sequence[LedgerRow], series: Sequence[Series]
) -> None:
    """Add rows, each with its series, to the roll-ups of their hour and day.

    The rows must have entered the table in this very transaction, and the caller must be the only
    writer.
    """
    if not rows:
        return
    # Most rows of a batch are alike: those are added up first, then the sums alone are placed.
    alike: dict[tuple[int, Series], int] = {}
    number = np.array(
        [
            alike.setdefault((int(row.at.timestamp()) // HOUR_S * HOUR_S, ids), len(alike))
            for row, ids in zip(rows, series, strict=True)
        ]
    )
    figures = np.zeros((len(alike), len(FIGURES)), np.int64)
    np.add.at(figures, number, figures_of(rows))
    times = summed([_owned(times_of(rows), number)])
    several = [ids for _, ids in alike]
    for table, length_s in ((ledger_hours, HOUR_S), (ledger_days, DAY_S)):
        places, owners = _places([hour // length_s * length_s for hour, _ in alike], several)
        sums = np.zeros((len(places), len(FIGURES)), np.int64)
        for of_grouping in owners:
            np.add.at(sums, of_grouping, figures)
        _store(connection, table, places, sums, [_owned(times, of) for of in owners])


def _places(starts: Sequence[int], series: Sequence[Series]) -> tuple[list[_Place], Numbers]:
    """The distinct places, and which of them each start is counted in, shape (groupings, n)."""
    places: dict[_Place, int] = {}
    owners = [
        [
            places.setdefault((grouping, start, ids[grouping]), len(places))
            for start, ids in zip(starts, series, strict=True)
        ]
        for grouping in range(len(GROUPINGS))
    ]
    return list(places), np.array(owners)


def _owned(times: Counts, owners: Numbers) -> Counts:
    """Counts of n · len(TIMES) + kind as counts of the n's owners."""
    numbers, kinds = np.divmod(times.owners, len(TIMES))
    return times._replace(owners=owners[numbers] * len(TIMES) + kinds)


def _store(
    connection: sa.Connection,
    table: sa.Table,
    places: Sequence[_Place],
    sums: Numbers,
    times: Sequence[Counts],
) -> None:
    """Add sums, shape (places, figures), and times, owned by place · len(TIMES) + kind."""
    stored = _stored_times(connection, table, places)
    blobs = encoded(summed([stored, *times]))
    values = [
        (*place, *figures, *(blobs.get(number * len(TIMES) + kind) for kind in range(len(TIMES))))
        for number, (place, figures) in enumerate(zip(places, sums.tolist(), strict=True))
    ]
    # Straight to the driver: SQLAlchemy's own way takes several times as long for so many columns.
    if connection.dialect.name == "postgresql":
        connection.exec_driver_sql(_upsert(table, _FROM_JSON), (_as_json(table, values),))
    else:
        connection.exec_driver_sql(_upsert(table, _FROM_VALUES), values)


def _stored_times(connection: sa.Connection, table: sa.Table, places: Sequence[_Place]) -> Counts:
    owners = {place: number * len(TIMES) for number, place in enumerate(places)}
    values = {name: list({place[i] for place in places}) for i, name in enumerate(_KEY)}
    width = len(_KEY)
    if connection.dialect.name == "postgresql":
        rows = connection.execute(_TIMES_OF[table.name], values)
    else:
        lists = tuple([json.dumps(several) for several in values.values()])
        rows = connection.exec_driver_sql(_SQLITE_TIMES_OF[table.name], lists)
    found = [
        (blob, owners[tuple(row[:width])] + kind)
        for row in rows
        if tuple(row[:width]) in owners
        for kind, blob in enumerate(row[width:])
        if blob is not None
    ]
    return decoded([blob for blob, _ in found], [owner for _, owner in found])


_KEY = ("grouping", "start", "series")


def _select_times(table: sa.Table) -> sa.Select[Any]:
    wanted = [table.c[name].in_(sa.bindparam(name, expanding=True)) for name in _KEY]
    return sa.select(*(table.c[name] for name in (*_KEY, *TIMES))).where(*wanted)


# Made once: putting a statement together takes longer than running it.
_TIMES_OF = {table.name: _select_times(table) for table in (ledger_hours, ledger_days)}
# In the driver's own words, which SQLAlchemy has nothing to do with.
_SQLITE_TIMES_OF = {
    table.name: (
        f"SELECT {', '.join((*_KEY, *TIMES))} FROM {table.name} WHERE "
        + " AND ".join(f"{name} IN (SELECT value FROM json_each(?))" for name in _KEY)
    )
    for table in (ledger_hours, ledger_days)
}
_FROM_VALUES = "VALUES ({marks})"
# One statement for all, which PostgreSQL takes much sooner than one for each.
_FROM_JSON = "SELECT {names} FROM json_populate_recordset(NULL::{table}, %s::json)"


@cache
def _upsert(table: sa.Table, source: str) -> str:
    """The statement in the driver's own words; its values come in the table's order."""
    names = ", ".join(table.c.keys())
    marks = ", ".join("?" * len(table.c))
    changes = [f"{name} = {table.name}.{name} + excluded.{name}" for name in FIGURES]
    changes += [f"{name} = excluded.{name}" for name in TIMES]
    return (
        f"INSERT INTO {table.name} ({names}) "
        + source.format(names=names, marks=marks, table=table.name)
        + f" ON CONFLICT (grouping, start, series) DO UPDATE SET {', '.join(changes)}"
    )


def _as_json(table: sa.Table, values: Sequence[tuple[int | bytes | None, ...]]) -> str:
    """Rows as objects; bytes as PostgreSQL spells them."""
    names = table.c.keys()
    return json.dumps(
        [
            {
                name: rf"\x{value.hex()}" if isinstance(value, bytes) else value
                for name, value in zip(names, row, strict=True)
            }
            for row in values
        ]
    )
