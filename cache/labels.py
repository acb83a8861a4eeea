"""Labels in bounded number: which series a row is counted in.

Some labels are named by clients (a collection, a tenant's own key), and roll-ups are kept far
longer than rows. So each label has a cap, and so has their combination: what comes beyond is
counted as `other`. A row itself keeps its own labels, since rows go when they are old, and an
operator must be able to find out who `other` is; it also notes the series that it was counted in,
so that rows and roll-ups always give the same sums.
"""

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from itertools import chain
from operator import attrgetter

import sqlalchemy as sa

from cache.ledger_row import LedgerRow
from cache.tables import GROUPINGS, LABELS, ledger_series

OTHER = "other"

Labels = tuple[str | None, ...]  # in the order of `LABELS`
Series = tuple[int, ...]  # ids in the order of `GROUPINGS`; the last one is noted in the row
_Grouped = tuple[int, Labels]  # place in `GROUPINGS`, labels

_ALL = len(GROUPINGS) - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelCaps:
    """Most values of each label, and most combinations of them, that are counted by name.

    Raises:
        ValueError: a cap below 1.
    """

    template: int = 500
    tenant: int = 1_000
    collection: int = 1_000
    mode: int = 16
    replica: int = 256
    error_code: int = 100
    series: int = 20_000

    def __post_init__(self) -> None:
        for cap in fields(self):
            if getattr(self, cap.name) < 1:
                raise ValueError(f"the cap {cap.name} must be 1 or more")


class KnownLabels:
    """The values that are counted by name, first come, first served. Pure; not thread-safe.

    Args:
        known: label sets that are counted already.
    """

    def __init__(self, caps: LabelCaps, known: Iterable[Labels] = ()) -> None:
        self._caps = caps
        self._values: dict[str, set[str | None]] = {label: {None, OTHER} for label in LABELS}
        self._known = set(known)
        for labels in self._known:
            for label, value in zip(LABELS, labels, strict=True):
                self._values[label].add(value)

    def bounded(self, labels: Labels) -> Labels:
        """The labels that these are counted under; the same ones at every later call."""
        bounded = tuple(
            self._value(label, value) for label, value in zip(LABELS, labels, strict=True)
        )
        if bounded not in self._known and len(self._known) >= self._caps.series:
            return _folded(bounded)
        self._known.add(bounded)
        return bounded

    def _value(self, label: str, value: str | None) -> str | None:
        values = self._values[label]
        # Two of the set are always there: "none" and `other`. A status is one of three.
        if value in values or label == "status" or len(values) - 2 < getattr(self._caps, label):
            values.add(value)
            return value
        return OTHER


def series_of(
    connection: sa.Connection, rows: Sequence[LedgerRow], caps: LabelCaps
) -> list[Series]:
    """The series of each row, made where they are new. The caller is the only writer then."""
    told = [_values(row) for row in rows]
    fitting = {values: _labels(values) for values in dict.fromkeys(told)}
    wanted = [fitting[values] for values in told]
    counted_as = _counted_as(connection, list(dict.fromkeys(wanted)), caps)
    of_labels = {labels: _grouped(labels) for labels in dict.fromkeys(counted_as.values())}
    ids = _ids(connection, list(dict.fromkeys(chain.from_iterable(of_labels.values()))))
    series = {
        labels: tuple(ids[grouped] for grouped in several) for labels, several in of_labels.items()
    }
    return [series[counted_as[labels]] for labels in wanted]


def _labels(values: Labels) -> Labels:
    """As far as the table has room for each."""
    return tuple(value and value[:room] for value, room in zip(values, _ROOM, strict=True))


_values = attrgetter(*LABELS)
_ROOM = tuple(ledger_series.c[label].type.length for label in LABELS)  # type: ignore[attr-defined]


def _folded(labels: Labels) -> Labels:
    """All in one series, but for the status: beyond the cap of combinations there are six more."""
    status, error_code = labels[-2:]
    return (*[OTHER] * (len(LABELS) - 2), status, error_code and OTHER)


def _grouped(labels: Labels) -> list[_Grouped]:
    """What a row with these labels is counted under, in the order of `GROUPINGS`."""
    nothing: Labels = (None,) * len(LABELS)
    alone = [
        (number + 1, (*nothing[:number], value, *nothing[number + 1 :]))
        for number, value in enumerate(labels)
    ]
    return [(0, nothing), *alone, (_ALL, labels)]


def _digest(grouped: _Grouped) -> str:
    return hashlib.blake2b(json.dumps(grouped).encode(), digest_size=16).hexdigest()


def _counted_as(
    connection: sa.Connection, wanted: Sequence[Labels], caps: LabelCaps
) -> dict[Labels, Labels]:
    """The labels under which each of these is counted: its own, or `other` in their place."""
    stored = _stored(connection, [(_ALL, labels) for labels in wanted])
    counted_as = {labels: labels for labels in wanted if (_ALL, labels) in stored}
    if len(counted_as) < len(wanted):
        known = KnownLabels(caps, _all_known(connection))
        counted_as |= {labels: known.bounded(labels) for labels in wanted}
    return counted_as


def _all_known(connection: sa.Connection) -> list[Labels]:
    columns = (ledger_series.c[label] for label in LABELS)
    statement = sa.select(*columns).where(ledger_series.c.grouping == _ALL)
    return [tuple(row) for row in connection.execute(statement)]


def _stored(connection: sa.Connection, wanted: Iterable[_Grouped]) -> dict[_Grouped, int]:
    digests = {_digest(grouped): grouped for grouped in wanted}
    found = connection.execute(_OF_DIGESTS, {"digests": list(digests)})
    return {digests[row.digest]: row.id for row in found}


_OF_DIGESTS = sa.select(ledger_series.c.id, ledger_series.c.digest).where(
    ledger_series.c.digest.in_(sa.bindparam("digests", expanding=True))
)


def _ids(connection: sa.Connection, wanted: Sequence[_Grouped]) -> dict[_Grouped, int]:
    ids = _stored(connection, wanted)
    new = [grouped for grouped in wanted if grouped not in ids]
    if new:
        values = [
            {**dict(zip(LABELS, labels, strict=True)), "grouping": grouping}
            | {"digest": _digest((grouping, labels))}
            for grouping, labels in new
        ]
        connection.execute(sa.insert(ledger_series), values)
        ids |= _stored(connection, new)
    return ids
