"""What requests add to the sums of `cache.figures`: for rows at hand, and for rows in a database.

Each figure is defined once, by which columns must be known, and by what is added up where they
are. Rows at hand are counted as they are written; a database counts its own in a rescan.
"""

import math
from collections.abc import Sequence
from operator import attrgetter

import numpy as np
import sqlalchemy as sa
from numpy.typing import NDArray

from cache.figures import DEFINITIONS, FIGURES, REASONS, STATUSES, TIMES, VERDICTS
from cache.histogram_arrays import Counts
from cache.histograms import buckets_of
from cache.ledger_row import LedgerRow
from cache.tables import ledger

Numbers = NDArray[np.int64]


def figures_of(rows: Sequence[LedgerRow]) -> Numbers:
    """What each row adds to each figure, shape (rows, figures)."""
    read = _Columns(rows)
    found = np.zeros((len(rows), len(FIGURES)), np.int64)
    place = {name: number for number, name in enumerate(FIGURES)}
    for name, definition in DEFINITIONS.items():
        known = read.known(definition.known)
        found[:, place[name]] = (
            known if definition.of is None else read.values(definition.of) * known
        )
    both = read.known(("predicted_tokens", "cached_tokens"))
    same = read.values("predicted_tokens") == read.values("cached_tokens")
    found[:, place["foretold_exact"]] = both & same
    for number, row in enumerate(rows):
        if row.status in STATUSES:
            found[number, place[STATUSES[row.status]]] = 1
        if row.verdict in VERDICTS:
            found[number, place[f"verdict_{row.verdict}"]] = 1
        for reason in row.lost or ():
            if reason in REASONS:
                found[number, place[f"lost_{reason}"]] = row.lost[reason]  # type: ignore[index]
    return found


def times_of(rows: Sequence[LedgerRow]) -> Counts:
    """The times that are known, as counts of the row's place · len(TIMES) + that in `TIMES`."""
    kinds = [_ttft_kind(row.cached_tokens) for row in rows]
    ttft_s = [known_time(row.ttft_s) for row in rows]
    e2e_s = [known_time(row.e2e_s) for row in rows]
    return bucketed(range(len(rows)), kinds, ttft_s, e2e_s)


def bucketed(
    owners: Sequence[int],
    ttft_kinds: Sequence[int],
    ttft_s: Sequence[float | None],
    e2e_s: Sequence[float | None],
) -> Counts:
    """Times, shape (n,) each, as counts of owner · len(TIMES) + kind; None isn't counted."""
    first = np.array(owners, np.int64) * len(TIMES)
    places = np.concatenate((first + np.array(ttft_kinds, np.int64), first + _E2E))
    seconds = np.concatenate((np.array(ttft_s, np.float64), np.array(e2e_s, np.float64)))
    is_known = ~np.isnan(seconds)
    buckets = buckets_of(seconds[is_known])
    return Counts(places[is_known], buckets, np.ones(len(buckets), np.int64))


def known_time(seconds: float | None) -> float | None:
    """A time as it is stored: what is no number, or no end, is not known."""
    return seconds if seconds is not None and math.isfinite(seconds) else None


def _ttft_kind(cached_tokens: int | None) -> int:
    """The place in `TIMES` of a request's time to first token, by what it re-used."""
    if cached_tokens is None:
        return _UNKNOWN
    return _HITS if cached_tokens > 0 else _MISSES


_HITS, _MISSES, _UNKNOWN, _E2E = range(len(TIMES))


# All columns that a figure is made of.
_READ = tuple(
    dict.fromkeys(
        column
        for definition in DEFINITIONS.values()
        for column in (*definition.known, definition.of)
        if column is not None
    )
)
_read = attrgetter(*_READ, "request_id")  # two names at least, or it gives no tuple


class _Columns:
    """The rows' columns as arrays of shape (rows,), each made once."""

    def __init__(self, rows: Sequence[LedgerRow]) -> None:
        self._num_rows = len(rows)
        self._columns = dict(zip(_READ, zip(*map(_read, rows), strict=True), strict=False))
        self._values: dict[str, Numbers] = {}
        self._known: dict[str, NDArray[np.bool_]] = {}

    def values(self, column: str) -> Numbers:
        """0 where it isn't known."""
        if column not in self._values:
            values = [value or 0 for value in self._columns.get(column, ())]
            self._values[column] = np.array(values, np.int64)
        return self._values[column]

    def known(self, columns: Sequence[str]) -> NDArray[np.bool_]:
        """Where all of these columns are known."""
        found = np.ones(self._num_rows, np.bool_)
        for column in columns:
            if column not in self._known:
                known = [value is not None for value in self._columns.get(column, ())]
                self._known[column] = np.array(known, np.bool_)
            found &= self._known[column]
        return found


def _in_sql() -> dict[str, sa.ColumnElement[int]]:
    row = ledger.c
    sums: dict[str, sa.ColumnElement[int]] = {}
    for name, definition in DEFINITIONS.items():
        known = sa.and_(sa.true(), *(row[column].is_not(None) for column in definition.known))
        if definition.of is None:
            sums[name] = _count_if(known)
        elif definition.known == (definition.of,):
            sums[name] = sa.func.sum(row[definition.of])
        else:
            sums[name] = sa.func.sum(sa.case((known, row[definition.of])))
    sums["foretold_exact"] = _count_if(row.predicted_tokens == row.cached_tokens)
    for status, name in STATUSES.items():
        sums[name] = _count_if(row.status == status)
    for verdict in VERDICTS:
        sums[f"verdict_{verdict}"] = _count_if(row.verdict == verdict)
    for reason in REASONS:
        sums[f"lost_{reason}"] = sa.func.sum(row.lost[reason].as_integer())
    return sums


def _count_if(condition: sa.ColumnElement[bool]) -> sa.ColumnElement[int]:
    return sa.func.count(sa.case((condition, 1)))


TTFT_KIND_IN_SQL = sa.case(
    (ledger.c.cached_tokens.is_(None), _UNKNOWN),
    (ledger.c.cached_tokens > 0, _HITS),
    else_=_MISSES,
)
# The same sums as a database works them out over the ledger; NULL is a sum of nothing.
IN_SQL = _in_sql()
