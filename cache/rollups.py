"""Sums by hour and by day, kept up to date by whoever writes rows, in the same transaction.

The database itself adds to the sums; histograms are read, added to and written back, which is exact
because there is one writer at a time (`cache.writers`).
"""

import json
from collections.abc import Sequence

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
    ended = [int(row.at.timestamp()) for row in rows]
    figures = figures_of(rows)
    times = times_of(rows)
    for table, length_s in ((ledger_hours, HOUR_S), (ledger_days, DAY_S)):
        places, owners = _places([at // length_s * length_s for at in ended], series)
        sums = np.zeros((len(places), len(FIGURES)), np.int64)
        for of_grouping in owners:
            np.add.at(sums, of_grouping, figures)
        _store(connection, table, places, sums, [_owned(times, of) for of in owners])


def _places(starts: Sequence[int], series: Sequence[Series]) -> tuple[list[_Place], Numbers]:
    """The distinct places, and which of them each row is counted in, shape (groupings, rows)."""
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
    """Counts of row · len(TIMES) + kind as counts of the rows' owners."""
    rows, kinds = np.divmod(times.owners, len(TIMES))
    return times._replace(owners=owners[rows] * len(TIMES) + kinds)


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
    key = (table.c.grouping, table.c.start, table.c.series)
    statement = sa.select(*key, *(table.c[kind] for kind in TIMES)).where(
        *(column.in_({place[i] for place in places}) for i, column in enumerate(key))
    )
    found = [
        (blob, owners[tuple(row[: len(key)])] + kind)
        for row in connection.execute(statement)
        if tuple(row[: len(key)]) in owners
        for kind, blob in enumerate(row[len(key) :])
        if blob is not None
    ]
    return decoded([blob for blob, _ in found], [owner for _, owner in found])


_FROM_VALUES = "VALUES ({marks})"
# One statement for all, which PostgreSQL takes much sooner than one for each.
_FROM_JSON = "SELECT {names} FROM json_populate_recordset(NULL::{table}, %s::json)"


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
