"""The figures of `cache.figures` added up by the database, over rows or over their roll-ups."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from cache.figures import FIGURES, TIMES
from cache.histogram_arrays import decoded, histograms_of, summed
from cache.histograms import Histogram
from cache.row_sums import sums_of_rows
from cache.tables import GROUPINGS, ledger, ledger_days, ledger_hours, ledger_series
from cache.windows import LENGTH, Grain, Part, floor

Key = tuple[Any, ...]  # a group's labels, after a start in seconds where sums are by time

_CHUNK = 20_000
_ALL = len(GROUPINGS) - 1
_TENANT = "tenant"


@dataclass(slots=True)
class Sums:
    """All sums of one group."""

    figures: dict[str, int] = field(default_factory=lambda: dict.fromkeys(FIGURES, 0))
    times: dict[str, Histogram] = field(default_factory=lambda: dict.fromkeys(TIMES, Histogram()))

    def add(self, other: "Sums") -> None:
        for name, figure in other.figures.items():
            self.figures[name] += figure
        for kind, histogram in other.times.items():
            self.times[kind] += histogram


class SumsByKey(dict[Key, Sums]):
    """Sums of each group; one that isn't there yet is all zeros."""

    def __missing__(self, key: Key) -> Sums:
        self[key] = Sums()
        return self[key]


def add_part(
    connection: sa.Connection,
    part: Part,
    by: Sequence[str],
    sums: SumsByKey,
    *,
    step: Grain | None,
    tenant: str | None = None,
) -> None:
    """Add one part of a window to the sums.

    Args:
        by: labels to group by, among `cache.labels.LABELS`.
        step: HOURS or DAYS puts the start of each one before the labels in the keys. A part of
            finer grain must then lie within one of them.
        tenant: the only one whose requests count; None is all.
    """
    if part.grain is Grain.ROWS:
        _add_rows(connection, part, by, sums, step, tenant)
    else:
        _add_rollups(connection, part, by, sums, step, tenant)


def requests_in(
    connection: sa.Connection, grain: Grain, since: datetime, until: datetime | None
) -> int:
    """How many requests the rows (hours, days) of a stretch of time hold."""
    if grain is Grain.ROWS:
        count: sa.ColumnElement[int] = sa.func.count()
        statement = sa.select(count).select_from(ledger)
    else:
        statement = sa.select(sa.func.sum(_table(grain).c.requests))
    part = Part(grain=grain, since=since, until=until)
    return int(connection.scalar(statement.where(*_where(part))) or 0)


def _add_rows(
    connection: sa.Connection,
    part: Part,
    by: Sequence[str],
    sums: SumsByKey,
    step: Grain | None,
    tenant: str | None,
) -> None:
    first = () if step is None else (_start_of(part, step),)
    by = by if tenant is None else (*by, _TENANT)
    for found in sums_of_rows(connection, since=part.since, until=part.until, by=by):
        labels = found.labels
        if tenant is not None:
            *rest, whose = labels
            if whose != tenant:
                continue
            labels = tuple(rest)
        total = sums[first + labels]
        _include(total, found.figures)
        for kind, histogram in found.times.items():
            total.times[kind] += histogram


def _add_rollups(
    connection: sa.Connection,
    part: Part,
    by: Sequence[str],
    sums: SumsByKey,
    step: Grain | None,
    tenant: str | None,
) -> None:
    table, where = _table(part.grain), _where(part, by if tenant is None else (*by, _TENANT))
    if tenant is not None:
        where.append(ledger_series.c[_TENANT] == tenant)
    start = None if step is None else _step_start(table.c.start, step)
    for key, values in _figures(connection, table, by, start=start, where=where):
        _include(sums[key], values)
    statement = _grouped(table, by, start, [table.c[kind] for kind in TIMES]).where(*where)
    width = len(by) + (start is not None)
    for chunk in connection.execute(statement.execution_options(yield_per=_CHUNK)).partitions():
        keys: dict[Key, int] = {}
        encoded: list[bytes] = []
        owners: list[int] = []
        for row in chunk:
            place = keys.setdefault(tuple(row[:width]), len(keys)) * len(TIMES)
            for kind, blob in enumerate(row[width:]):
                if blob is not None:
                    encoded.append(blob)
                    owners.append(place + kind)
        names = list(keys)
        for owner, histogram in histograms_of(summed([decoded(encoded, owners)])).items():
            sums[names[owner // len(TIMES)]].times[TIMES[owner % len(TIMES)]] += histogram


def _figures(
    connection: sa.Connection,
    source: sa.FromClause,
    by: Sequence[str],
    *,
    start: sa.ColumnElement[int] | None,
    where: Sequence[sa.ColumnElement[bool]],
) -> Iterator[tuple[Key, Sequence[int]]]:
    """(key, sums in the order of `FIGURES`) of a table that has these and `series`."""
    totals = [sa.func.sum(source.c[name]) for name in FIGURES]
    keys: list[sa.ColumnElement[Any]] = [] if start is None else [start]
    keys += [ledger_series.c[label] for label in by]
    statement = _grouped(source, by, start, totals).where(*where).group_by(*keys)
    for row in connection.execute(statement):
        yield tuple(row[: len(keys)]), row[len(keys) :]


def _grouped(
    source: sa.FromClause,
    by: Sequence[str],
    start: sa.ColumnElement[int] | None,
    values: Sequence[sa.ColumnElement[Any]],
) -> sa.Select[*tuple[Any, ...]]:
    keys: list[sa.ColumnElement[Any]] = [] if start is None else [start]
    keys += [ledger_series.c[label] for label in by]
    joined = source.join(ledger_series, ledger_series.c.id == source.c.series)
    return sa.select(*keys, *values).select_from(joined)


def _include(sums: Sums, values: Sequence[int]) -> None:
    for name, value in zip(FIGURES, values, strict=True):
        sums.figures[name] += int(value or 0)


def _table(grain: Grain) -> sa.Table:
    return ledger_days if grain is Grain.DAYS else ledger_hours


def _where(part: Part, by: Sequence[str] = ()) -> list[sa.ColumnElement[bool]]:
    where: list[sa.ColumnElement[bool]] = []
    column: sa.Column[datetime] | sa.Column[int] = ledger.c.at
    bounds: tuple[datetime | int | None, ...] = (part.since, part.until)
    if part.grain is not Grain.ROWS:
        where.append(_table(part.grain).c.grouping == _grouping(by))
        column = _table(part.grain).c.start
        bounds = tuple(moment and int(moment.timestamp()) for moment in (part.since, part.until))
    if bounds[0] is not None:
        where.append(column >= bounds[0])
    if bounds[1] is not None:
        where.append(column < bounds[1])
    return where


def _grouping(by: Sequence[str]) -> int:
    """The place in `GROUPINGS` of the coarsest one that can be told apart by these labels."""
    if len(by) > 1:
        return _ALL
    return GROUPINGS.index(by[0]) if by else 0


def _start_of(part: Part, step: Grain) -> int:
    assert part.since is not None, "rows by time come from bounded parts"
    return int(floor(part.since, step).timestamp())


def _step_start(start: sa.Column[int], step: Grain) -> sa.ColumnElement[int]:
    seconds = int(LENGTH[step].total_seconds())
    return start - start % seconds
