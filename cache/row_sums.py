"""Sums over the ledger's rows themselves: for a rescan, and where a window ends within an hour.

PostgreSQL groups them in one statement for the figures and one for the times. SQLite would sort all
rows for that; it hands them over as packed numbers instead (`cache.packed_rows`), and groups only
those that have a number too large to be packed.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import numpy as np
import sqlalchemy as sa

from cache.counting import IN_SQL, TTFT_KIND_IN_SQL
from cache.figures import FIGURES, TIMES
from cache.histogram_arrays import Counts, histograms_of, summed
from cache.histograms import Histogram
from cache.histograms_in_sql import bucket_in_sql
from cache.labels import Labels
from cache.packed_rows import PackedSums, add_packed, pieces
from cache.tables import GROUPINGS, ledger, ledger_series

_ALL = len(GROUPINGS) - 1
_CHUNK = 20_000
_PIECE = 50_000
_E2E = len(TIMES) - 1

Where = Sequence[sa.ColumnElement[bool]]


@dataclass(frozen=True, slots=True)
class RowSums:
    """What some rows of one group add: figures in the order of `FIGURES`, times by their kind."""

    labels: Labels
    figures: Sequence[int]
    times: dict[str, Histogram]


def sums_of_rows(
    connection: sa.Connection,
    *,
    since: datetime | None,
    until: datetime | None,
    by: Sequence[str],
    piece_rows: int = _PIECE,
) -> Iterator[RowSums]:
    """The sums of the rows in `since` <= end < `until`; a group may come more than once.

    Args:
        by: labels to group by, among `cache.labels.LABELS`.
        piece_rows: about so many rows of SQLite's are in memory at a time.
    """
    groups = _Groups.read(connection, by)
    if connection.dialect.name != "sqlite":
        yield from _grouped(connection, _window(since, until), groups)
        return
    packed = PackedSums(groups.of_series, len(groups.labels))
    for start, end in pieces(connection, since, until, rows=piece_rows):
        where = _window(start, end)
        if not add_packed(connection, where, packed):
            yield from _grouped(connection, where, groups)
    for place, figures, times in packed.found():
        yield RowSums(groups.labels[place], figures, times)


@dataclass(frozen=True, slots=True)
class _Groups:
    """The groups' labels, and the place among them of each series' group."""

    labels: list[Labels]
    of_series: dict[int, int]

    @classmethod
    def read(cls, connection: sa.Connection, by: Sequence[str]) -> "_Groups":
        places: dict[Labels, int] = {}
        statement = sa.select(ledger_series.c.id, *(ledger_series.c[label] for label in by))
        of_all = statement.where(ledger_series.c.grouping == _ALL)
        of_series = {
            series: places.setdefault(tuple(labels), len(places))
            for series, *labels in connection.execute(of_all)
        }
        return cls(list(places), of_series)


def _window(since: datetime | None, until: datetime | None) -> Where:
    where: list[sa.ColumnElement[bool]] = [ledger.c.series.is_not(None)]
    if since is not None:
        where.append(ledger.c.at >= since)
    if until is not None:
        where.append(ledger.c.at < until)
    return where


def _grouped(connection: sa.Connection, where: Where, groups: _Groups) -> Iterator[RowSums]:
    """By series in the database: numbers are quicker to compare than labels."""
    series = ledger.c.series
    figures = sa.select(series, *(IN_SQL[name] for name in FIGURES)).where(*where).group_by(series)
    for number, *values in connection.execute(figures):
        if number in groups.of_series:
            labels = groups.labels[groups.of_series[number]]
            yield RowSums(labels, [int(value or 0) for value in values], {})
    for kind, seconds in ((TTFT_KIND_IN_SQL, ledger.c.ttft_s), (sa.literal(_E2E), ledger.c.e2e_s)):
        keys = [series, kind.label("kind"), bucket_in_sql(seconds).label("bucket")]
        known = (*where, seconds.is_not(None))
        yield from _times(connection, _counted(keys, known), groups)


def _counted(keys: Sequence[sa.ColumnElement[Any]], where: Where) -> sa.Select[Any]:
    rows = sa.select(*keys).where(*where).subquery()
    return sa.select(*rows.c, sa.func.count()).group_by(*rows.c)


def _times(
    connection: sa.Connection, statement: sa.Select[Any], groups: _Groups
) -> Iterator[RowSums]:
    streamed = connection.execute(statement.execution_options(yield_per=_CHUNK))
    for chunk in streamed.partitions():
        counts = [
            (groups.of_series[series] * len(TIMES) + kind, bucket, count)
            for series, kind, bucket, count in chunk
            if series in groups.of_series
        ]
        columns = np.array(counts, np.int64).reshape(-1, len(Counts._fields)).T
        yield from _by_group(summed([Counts(*columns)]), groups)


def _by_group(counts: Counts, groups: _Groups) -> Iterator[RowSums]:
    for owner, histogram in histograms_of(counts).items():
        place, kind = divmod(owner, len(TIMES))
        yield RowSums(groups.labels[place], [0] * len(FIGURES), {TIMES[kind]: histogram})
