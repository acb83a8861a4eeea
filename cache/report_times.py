"""A report's times: hit rates by interval, and times to first token in buckets for a plot."""

import math
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

import sqlalchemy as sa

from cache.histograms import Histogram
from cache.report_values import OverTime, TimeLine, TimePoint, TtftShare, TtftSplit
from cache.summary import Moment, Percentiles, Step, Summary, moments, summaries

_MOST_HOURS = 24 * 24
_MOST_MOMENTS = 3_000
_FEW_HOURS = 3
_FINE = timedelta(minutes=5)
_STEPS = tuple(timedelta(hours=hours) for hours in (1, 2, 3, 6, 12))
_MOST_POINTS = 60
_LINES = 6
_PER_DECADE = 8
_SHORTEST_S = 0.001


def over_time(
    connection: sa.Connection,
    templates: Sequence[str | None],
    *,
    since: datetime | None,
    until: datetime | None,
    tenant: str | None = None,
) -> OverTime | None:
    """Hit rates by day, hour or five minutes, whichever the window with requests has room for.

    Args:
        templates: all of the window, those with most prompt tokens first; the first get a line.
        tenant: the only one whose requests count; None is all.
    """
    days = moments(connection, since=since, until=until, by=(), step=Step.DAY, tenant=tenant)
    if not days:
        return None
    hours = _hours(days, since, until)
    by = ("template",) if len(days) * len(templates) <= _MOST_MOMENTS else ()
    step, found = timedelta(hours=1), list[Moment]()
    if hours <= _MOST_HOURS and hours * len(templates) <= _MOST_MOMENTS:
        step, found = _by_hours(connection, since, until, tenant)
    if not found:  # too many hours, or none of them is kept any more
        step = timedelta(days=1)
        found = moments(connection, since=since, until=until, by=by, step=Step.DAY, tenant=tenant)
    shown = templates[:_LINES] if by else ()
    return OverTime(
        step=step,
        everything=TimeLine(template=None, points=_points(found)),
        templates=tuple(_line(found, template) for template in shown),
        left_out=len(templates) - len(shown),
    )


def _hours(days: Sequence[Moment], since: datetime | None, until: datetime | None) -> float:
    """How many hours the part of a window takes that has requests, to the day."""
    first = max(days[0].start, since or days[0].start)
    end = days[-1].start + timedelta(days=1)
    return (min(end, until or end) - first) / timedelta(hours=1)


def _by_hours(
    connection: sa.Connection,
    since: datetime | None,
    until: datetime | None,
    tenant: str | None,
) -> tuple[timedelta, list[Moment]]:
    """Intervals of some hours, or of five minutes where there are few hours."""
    found = moments(connection, since=since, until=until, tenant=tenant)
    if not found:
        return timedelta(hours=1), []
    first, last = found[0].start, found[-1].start + timedelta(hours=1)
    if last - first <= timedelta(hours=_FEW_HOURS):
        first, last = max(first, since or first), min(last, until or last)
        return _FINE, _fine(connection, first, last, tenant)
    step = next(s for s in _STEPS if (last - first) / s <= _MOST_POINTS)
    return step, [replace(moment, start=_floor(moment.start, step)) for moment in found]


def ttft_split(total: Summary) -> TtftSplit:
    """Times to first token by re-use, in buckets that are the same for each kind."""
    kinds = total.ttft_hits, total.ttft_misses, total.ttft_unknown
    bounds = _bounds([kind.histogram for kind in kinds if kind.histogram is not None])
    with_hits, without, unknown = (_share(kind, bounds) for kind in kinds)
    return TtftSplit(with_hits=with_hits, without=without, unknown=unknown)


def _fine(
    connection: sa.Connection, start: datetime, end: datetime, tenant: str | None
) -> list[Moment]:
    """Short intervals, read one by one: there are few, and their rows are the latest ones."""
    found: list[Moment] = []
    while start < end:
        stop = min(start + _FINE, end)
        found += [
            Moment(start=start, summary=s)
            for s in summaries(connection, since=start, until=stop, tenant=tenant)
        ]
        start = stop
    return found


def _floor(start: datetime, step: timedelta) -> datetime:
    """The start of the interval that an hour lies in, counted from the day's beginning."""
    day = start.replace(hour=0)
    return day + (start - day) // step * step


def _points(found: Iterable[Moment]) -> tuple[TimePoint, ...]:
    """A point for each interval that has requests."""
    by_start: dict[datetime, list[Summary]] = {}
    for moment in found:
        by_start.setdefault(moment.start, []).append(moment.summary)
    return tuple(_point(start, summed) for start, summed in sorted(by_start.items()))


def _line(found: Iterable[Moment], template: str | None) -> TimeLine:
    own = (moment for moment in found if moment.summary.group["template"] == template)
    return TimeLine(template=template, points=_points(own))


def _point(at: datetime, found: Sequence[Summary]) -> TimePoint:
    known = sum(s.accounted.prompt_tokens for s in found)
    return TimePoint(
        at=at,
        requests=sum(s.requests for s in found),
        cached_tokens=sum(s.hit.cached_tokens for s in found),
        prompt_tokens=sum(s.hit.prompt_tokens for s in found),
        ideal_rate=sum(s.accounted.ideal_tokens for s in found) / known if known else None,
    )


def _bounds(found: Sequence[Histogram]) -> list[float]:
    """Upper bounds in equal steps of the logarithm, around all times that there are."""
    times = [(low, high) for histogram in found for low, high, _ in histogram.buckets() if high]
    if not times:
        return [_SHORTEST_S]
    first = math.floor(math.log10(min(low for low, _ in times)) * _PER_DECADE)
    last = math.ceil(math.log10(max(high for _, high in times)) * _PER_DECADE)
    return [10 ** (step / _PER_DECADE) for step in range(first + 1, last + 1)]


def _share(kind: Percentiles, bounds: Sequence[float]) -> TtftShare:
    counts = [0] * len(bounds)
    for low, high, requests in kind.histogram.buckets() if kind.histogram else ():
        middle = (low + high) / 2
        counts[min(bisect_left(bounds, middle), len(bounds) - 1)] += requests
    return TtftShare(
        requests=kind.requests,
        p50_s=kind.p50_s,
        p90_s=kind.p90_s,
        p99_s=kind.p99_s,
        buckets=tuple(zip(bounds, counts, strict=True)),
    )
