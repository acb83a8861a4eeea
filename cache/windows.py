"""A stretch of time cut into whole days, whole hours and the ragged rest. Pure.

Instants are aware datetimes; days and hours are those of UTC, as in the roll-ups. `None` is a
window without a bound on that side.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum


class Grain(StrEnum):
    """Where a part's figures are read from."""

    ROWS = "rows"
    HOURS = "hours"
    DAYS = "days"


class Step(StrEnum):
    """How finely figures over time are told."""

    HOUR = "hour"
    DAY = "day"


LENGTH = {Grain.HOURS: timedelta(hours=1), Grain.DAYS: timedelta(days=1)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Coverage:
    """A window that figures are for: `since` <= end of the request < `until`."""

    since: datetime | None
    until: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A piece of a window that one table answers for."""

    grain: Grain
    since: datetime | None
    until: datetime | None


def floor(moment: datetime, grain: Grain) -> datetime:
    """The start of the hour or day that a moment lies in."""
    start = moment.astimezone(UTC).replace(minute=0, second=0, microsecond=0)
    return start.replace(hour=0) if grain is Grain.DAYS else start


def ceiling(moment: datetime, grain: Grain) -> datetime:
    """The first start of an hour or day at a moment or after it."""
    start = floor(moment, grain)
    return start if start == moment else start + LENGTH[grain]


def parts(window: Coverage, *, coarsest: Grain = Grain.DAYS) -> list[Part]:
    """A window as parts without gap or overlap, in order: as much as possible of coarse grain."""
    return list(_parts(window.since, window.until, coarsest))


def widened(window: Coverage, is_complete: Callable[[datetime, Grain], bool]) -> Coverage:
    """The window, its edges moved outwards to what can still be told.

    Args:
        is_complete: whether all that lies in the hour (day) from a moment on is still there in
            finer grain: as rows (as hours).
    """
    since, until = window.since, window.until
    for grain in (Grain.HOURS, Grain.DAYS):
        if since is not None and _is_ragged(since, grain, is_complete):
            since = floor(since, grain)
        if until is not None and _is_ragged(until, grain, is_complete):
            until = ceiling(until, grain)
    return Coverage(since=since, until=until)


def _is_ragged(
    edge: datetime, grain: Grain, is_complete: Callable[[datetime, Grain], bool]
) -> bool:
    start = floor(edge, grain)
    return start != edge and not is_complete(start, grain)


def _parts(since: datetime | None, until: datetime | None, grain: Grain) -> Iterator[Part]:
    if since is not None and until is not None and since >= until:
        return
    if grain is Grain.ROWS:
        yield Part(grain=grain, since=since, until=until)
        return
    finer = Grain.HOURS if grain is Grain.DAYS else Grain.ROWS
    first = None if since is None else ceiling(since, grain)
    last = None if until is None else floor(until, grain)
    if first is not None and last is not None and first >= last:
        # No whole day (hour) in it; where an edge is one, the halves are told apart there.
        middle = first if first == last else until
        yield from _parts(since, middle, finer)
        yield from _parts(middle, until, finer)
        return
    if first is not None:
        yield from _parts(since, first, finer)
    yield Part(grain=grain, since=first, until=last)
    if last is not None:
        yield from _parts(last, until, finer)
