"""Sums over the ledger: what was re-used, from where, how soon, and what was lost for which reason.

They are read from the roll-ups by day and hour; rows are only looked at where a window begins or
ends within an hour. Either way gives the same numbers. Percentiles are by nearest rank, from
histograms: they differ from a time that a request really took by `RELATIVE_ERROR` of it at most.
The hit rate is weighted by tokens: cached tokens over prompt tokens, both summed over the requests
for which both are known.
"""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

import sqlalchemy as sa

from cache.errors import ReportGroupError
from cache.histograms import RELATIVE_ERROR
from cache.sums import SumsByKey, add_part, requests_in
from cache.tables import LABELS
from cache.totals import (
    Accounted,
    Foretold,
    HitRate,
    Lost,
    Moment,
    Percentiles,
    Summary,
    TierSums,
    TokenSum,
    summary_of,
)
from cache.windows import LENGTH, Coverage, Grain, Part, Step, parts, widened

GROUPS = LABELS

__all__ = [
    "GROUPS",
    "RELATIVE_ERROR",
    "Accounted",
    "Coverage",
    "Foretold",
    "HitRate",
    "Lost",
    "Moment",
    "Percentiles",
    "Step",
    "Summary",
    "TierSums",
    "TokenSum",
    "coverage",
    "moments",
    "rescan",
    "summaries",
    "versions",
]


def summaries(
    connection: sa.Connection,
    *,
    since: datetime | None = None,
    until: datetime | None = None,
    by: Sequence[str] = ("template",),
    tenant: str | None = None,
) -> list[Summary]:
    """The ledger's requests in `since` <= end < `until`, one summary a group, in the groups' order.

    An edge that can't be told any more is widened: `coverage` says to where.

    Args:
        by: columns among `GROUPS`; none gives a single summary of everything (if there is any).
        tenant: the only one whose requests count; None is all.

    Raises:
        ReportGroupError: a column that is not among `GROUPS`.
    """
    window = coverage(connection, since=since, until=until)
    return _summaries(connection, parts(window), by, tenant)


def rescan(
    connection: sa.Connection,
    *,
    since: datetime | None = None,
    until: datetime | None = None,
    by: Sequence[str] = ("template",),
) -> list[Summary]:
    """As `summaries`, from rows alone: slow, and only as far back as rows are kept."""
    return _summaries(connection, [Part(grain=Grain.ROWS, since=since, until=until)], by, None)


def moments(
    connection: sa.Connection,
    *,
    since: datetime | None = None,
    until: datetime | None = None,
    by: Sequence[str] = ("template",),
    step: Step = Step.HOUR,
    tenant: str | None = None,
) -> list[Moment]:
    """The groups of `summaries` over time, by start and then in the groups' order.

    An hour or day without requests isn't in it, and neither is an hour that is no longer kept.

    Raises:
        ReportGroupError: a column that is not among `GROUPS`.
    """
    window = coverage(connection, since=since, until=until)
    grain = Grain.HOURS if step is Step.HOUR else Grain.DAYS
    sums = _sums(connection, parts(window, coarsest=grain), by, grain, tenant)
    found = [
        Moment(start=datetime.fromtimestamp(start, UTC), summary=summary_of(by, labels, figures))
        for (start, *labels), figures in sums.items()
    ]
    return sorted(found, key=lambda moment: (moment.start, _order(moment.summary)))


def coverage(
    connection: sa.Connection, *, since: datetime | None, until: datetime | None
) -> Coverage:
    """The window that `summaries` answers for when asked for this one.

    Where an edge lies within an hour whose rows are no longer all kept, that whole hour is taken;
    and so with days.
    """

    def is_complete(start: datetime, grain: Grain) -> bool:
        end = start + LENGTH[grain]
        finer = Grain.ROWS if grain is Grain.HOURS else Grain.HOURS
        kept, counted = (requests_in(connection, at, start, end) for at in (finer, grain))
        return kept == counted

    return widened(Coverage(since=since, until=until), is_complete)


def versions(found: Iterable[Summary]) -> dict[str, list[tuple[str, Summary]]]:
    """Summaries by template as (version, summary) in the versions' order, for each template's name.

    Versions that are numbers come first, in their order; a template without one has version "".
    """
    by_name: dict[str, list[tuple[str, Summary]]] = {}
    for summary in found:
        name, _, version = (summary.group["template"] or "").partition("@")
        by_name.setdefault(name, []).append((version, summary))
    for of_name in by_name.values():
        of_name.sort(key=lambda pair: (not pair[0].isdecimal(), len(pair[0]), pair[0]))
    return by_name


def _summaries(
    connection: sa.Connection, of: Iterable[Part], by: Sequence[str], tenant: str | None
) -> list[Summary]:
    sums = _sums(connection, of, by, None, tenant)
    return sorted((summary_of(by, key, figures) for key, figures in sums.items()), key=_order)


def _sums(
    connection: sa.Connection,
    of: Iterable[Part],
    by: Sequence[str],
    step: Grain | None,
    tenant: str | None,
) -> SumsByKey:
    for column in by:
        if column not in GROUPS:
            raise ReportGroupError(column=column, allowed=GROUPS)
    sums = SumsByKey()
    for part in of:
        add_part(connection, part, by, sums, step=step, tenant=tenant)
    return SumsByKey({key: found for key, found in sums.items() if found.figures["requests"]})


def _order(summary: Summary) -> list[tuple[bool, str]]:
    return [(value is None, value or "") for value in summary.group.values()]
