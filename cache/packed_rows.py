"""Ledger rows read from SQLite as packed numbers, and summed with numpy.

Grouping in SQLite sorts all rows, and an object in Python for each value takes as long. So SQLite's
`char` makes one code point of each number, `group_concat` one text of some ten thousand rows, and
the text's code points are an array: each number read for a few nanoseconds.

A code point holds 0 … 0x10FFFF; for what doesn't fit, `char` gives 0xFFFD. Pieces in which that is
found are left to the caller, also the few in which it is a number's own.

Source: https://www.sqlite.org/lang_corefunc.html#char
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from itertools import chain

import msgspec
import numpy as np
import sqlalchemy as sa
from numpy.typing import NDArray

from cache.figures import DEFINITIONS, FIGURES, REASONS, STATUSES, TIMES, TOKENS, VERDICTS
from cache.histogram_arrays import Counts, Numbers, histograms_of, summed
from cache.histograms import NUM_BUCKETS, Histogram
from cache.histograms_in_sql import bucket_in_sql
from cache.tables import ledger

Packed = NDArray[np.uint32]

_DOES_NOT_FIT = 0xFFFD
_HITS, _MISSES, _UNKNOWN, _E2E = range(len(TIMES))
_NO_TIME = NUM_BUCKETS
# Texts by the code that they are packed as; the last ones are codes of their own.
_ENDS = ("ok", *STATUSES)
_GIVEN = ("", *VERDICTS)
_UNKNOWN_LOST, _NOTHING_LOST, _LOST = range(3)
_PLACE = {name: number for number, name in enumerate(FIGURES)}
_losses = msgspec.json.Decoder(list[dict[str, int]])


def pieces(
    connection: sa.Connection, since: datetime | None, until: datetime | None, *, rows: int
) -> Iterator[tuple[datetime | None, datetime | None]]:
    """A window cut into pieces of so many rows; one has more only where many have one time."""
    at = ledger.c.at
    start = since
    while True:
        where = [] if start is None else [at > start]
        where += [] if until is None else [at < until]
        end = connection.scalar(sa.select(at).where(*where).order_by(at).offset(rows - 1).limit(1))
        yield start, until if end is None else end
        if end is None:
            return
        start = end


class PackedSums:
    """Sums by group, of any number of pieces.

    Args:
        places: the place of each series' group; rows of any other series aren't counted.
        groups: how many groups there are.
    """

    def __init__(self, places: Mapping[int, int], groups: int) -> None:
        self._place_of = np.full(max(places, default=0) + 2, -1, np.int64)
        self._place_of[list(places)] = list(places.values())
        self._groups = groups
        self._figures = np.zeros((groups, len(FIGURES)), np.int64)
        self._times = Counts(*(np.zeros(0, np.int64) for _ in Counts._fields))

    def add(self, rows: Mapping[str, Packed], lost: Sequence[Mapping[str, int]]) -> None:
        """Add rows by their columns, and what those lost that lost something."""
        series = np.minimum(rows["series"], len(self._place_of) - 1)
        owners = self._place_of[series]
        if (owners < 0).any():
            lost = [
                loss
                for loss, owner in zip(lost, owners[rows["lost"] == _LOST], strict=True)
                if owner >= 0
            ]
            rows = {name: column[owners >= 0] for name, column in rows.items()}
            owners = owners[owners >= 0]
        self._add_definitions(owners, rows)
        self._add_codes(owners, rows["status"], [_PLACE[STATUSES[end]] for end in STATUSES])
        self._add_codes(owners, rows["verdict"], [_PLACE[f"verdict_{name}"] for name in VERDICTS])
        self._add_lost(owners[rows["lost"] == _LOST], lost)
        self._add_times(owners, rows)

    def found(self) -> Iterator[tuple[int, list[int], dict[str, Histogram]]]:
        """(place, figures, times) of each group that has rows."""
        times: dict[int, dict[str, Histogram]] = {}
        for owner, histogram in histograms_of(self._times).items():
            place, kind = divmod(owner, len(TIMES))
            times.setdefault(place, {})[TIMES[kind]] = histogram
        for place, figures in enumerate(self._figures.tolist()):
            if figures[_PLACE["requests"]]:
                yield place, figures, times.get(place, {})

    def _add_definitions(self, owners: Numbers, rows: Mapping[str, Packed]) -> None:
        known = {column: rows[column] > 0 for column in (*TOKENS.values(), "lost")}
        counts: dict[tuple[str, ...], Numbers] = {}
        for name, definition in DEFINITIONS.items():
            counted = _all_of([known[column] for column in definition.known])
            if definition.known not in counts:
                counts[definition.known] = _totals(owners, None, counted, self._groups)
            total = count = counts[definition.known]
            if definition.of is not None:
                # A number is packed as the next one, since 0 stands for one that isn't known.
                total = _totals(owners, rows[definition.of], counted, self._groups) - count
            self._figures[:, _PLACE[name]] += total
        both = known["predicted_tokens"] & known["cached_tokens"]
        exact = both & (rows["predicted_tokens"] == rows["cached_tokens"])
        self._figures[:, _PLACE["foretold_exact"]] += _totals(owners, None, exact, self._groups)

    def _add_codes(self, owners: Numbers, codes: Packed, figures: Sequence[int]) -> None:
        """Count codes from 1 on as these figures; 0 is counted as none of them."""
        width = len(figures) + 1
        counts = _totals(owners * width + codes, None, None, self._groups * width)
        self._figures[:, figures] += counts.reshape(self._groups, width)[:, 1:]

    def _add_lost(self, owners: Numbers, lost: Sequence[Mapping[str, int]]) -> None:
        reasons = np.array([*map(_REASON_CODE.__getitem__, chain.from_iterable(lost))], np.int64)
        tokens = np.array([*chain.from_iterable(loss.values() for loss in lost)], np.int64)
        whose = np.repeat(owners, np.array([*map(len, lost)], np.int64))
        width = len(REASONS) + 1
        totals = _totals(whose * width + reasons, tokens, None, self._groups * width)
        self._figures[:, _LOST_PLACES] += totals.reshape(self._groups, width)[:, 1:]

    def _add_times(self, owners: Numbers, rows: Mapping[str, Packed]) -> None:
        cached = rows["cached_tokens"]
        kinds = np.where(cached > 1, _HITS, np.where(cached == 1, _MISSES, _UNKNOWN))
        for kind, buckets in ((kinds, rows["ttft_s"]), (_E2E, rows["e2e_s"])):
            is_known = buckets != _NO_TIME
            places = (owners * len(TIMES) + kind)[is_known]
            found = buckets[is_known].astype(np.int64)
            counts = summed([Counts(places, found, np.ones(len(found), np.int64))])
            self._times = summed([self._times, counts])


def add_packed(
    connection: sa.Connection, where: Sequence[sa.ColumnElement[bool]], sums: PackedSums
) -> bool:
    """Add one piece's rows; False, and nothing is added, where a number didn't fit."""
    packed, lost = connection.execute(_PACKED.where(*where)).one()
    if packed is None:
        return True
    text = packed.decode("utf-8", "surrogatepass").encode("utf-32-le", "surrogatepass")
    numbers = np.frombuffer(text, np.uint32).reshape(-1, len(_COLUMNS))
    if (numbers == _DOES_NOT_FIT).any():
        return False
    columns = np.ascontiguousarray(numbers.T)
    sums.add(dict(zip(_COLUMNS, columns, strict=True)), _losses.decode(b"[%b]" % (lost or b"")))
    return True


def _totals(
    owners: Numbers, values: Packed | Numbers | None, counted: NDArray[np.bool_] | None, size: int
) -> Numbers:
    """Sums by owner, of what is counted; exact, as a piece's sum is far below 2**53."""
    if counted is not None:
        owners = owners[counted]
        values = None if values is None else values[counted]
    return np.bincount(owners, weights=values, minlength=size).astype(np.int64)


def _all_of(known: Sequence[NDArray[np.bool_]]) -> NDArray[np.bool_] | None:
    """Where all are true; None where that is everywhere."""
    found = np.logical_and.reduce(known) if known else None
    return None if found is None or found.all() else found


def _code(column: sa.Column[str], values: Sequence[str]) -> sa.ColumnElement[int]:
    """The place of a text among `values`, 0 where it isn't one of them."""
    codes = {value: _number(code) for code, value in enumerate(values) if value}
    return sa.case(codes, value=column, else_=_number(0))


def _number(value: int) -> sa.ColumnElement[int]:
    return sa.literal_column(str(value), sa.Integer)


def _in_sql() -> dict[str, sa.ColumnElement[int]]:
    row = ledger.c
    lost = sa.type_coerce(row.lost, sa.Text)
    return {
        "series": row.series,
        "status": _code(row.status, _ENDS),
        "verdict": _code(row.verdict, _GIVEN),
        "lost": sa.case(
            (lost == _NO_LOSS, _number(_NOTHING_LOST)),
            (lost.is_not(None), _number(_LOST)),
            else_=_number(_UNKNOWN_LOST),
        ),
        **{
            seconds: sa.case(
                (row[seconds].is_(None), _number(_NO_TIME)), else_=bucket_in_sql(row[seconds])
            )
            for seconds in ("ttft_s", "e2e_s")
        },
        **{
            column: sa.func.ifnull(row[column] + _number(1), _number(0))
            for column in TOKENS.values()
        },
    }


_LOST_PLACES = [_PLACE[f"lost_{name}"] for name in REASONS]
_REASON_CODE = defaultdict(int, {name: code for code, name in enumerate(REASONS, 1)})
_NO_LOSS: sa.ColumnElement[str] = sa.literal_column("'{}'", sa.Text)
_IN_SQL = _in_sql()
_COLUMNS = tuple(_IN_SQL)
_PACKED = sa.select(
    sa.cast(
        sa.func.group_concat(sa.func.char(*_IN_SQL.values()), sa.literal_column("''")),
        sa.LargeBinary,
    ),
    sa.cast(
        sa.func.group_concat(sa.func.nullif(sa.type_coerce(ledger.c.lost, sa.Text), _NO_LOSS)),
        sa.LargeBinary,
    ),
)
