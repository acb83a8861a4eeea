"""Windows are cut without gap or overlap, as coarsely as can be."""

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cache.windows import LENGTH, Coverage, Grain, Part, ceiling, floor, parts, widened

START = datetime(2026, 3, 1, tzinfo=UTC)
instants = st.integers(0, 5 * 24 * 60).map(lambda minutes: START + timedelta(minutes=minutes))
bounds = st.none() | instants


def hours(number: float) -> datetime:
    return START + timedelta(hours=number)


@given(instants, instants, st.sampled_from(Grain))
def test_parts_follow_each_other_from_end_to_end(
    since: datetime, until: datetime, coarsest: Grain
) -> None:
    found = parts(Coverage(since=since, until=until), coarsest=coarsest)
    edges = [edge for part in found for edge in (part.since, part.until)]
    if since >= until:
        assert found == []
        return
    assert edges[0] == since
    assert edges[-1] == until
    assert edges[1:-1:2] == edges[2:-1:2]
    assert all(part.since is not None and part.until is not None for part in found)


@given(bounds, bounds)
def test_parts_are_whole_hours_and_days_and_rows_lie_within_one_hour(
    since: datetime | None, until: datetime | None
) -> None:
    for part in parts(Coverage(since=since, until=until)):
        for edge in (part.since, part.until):
            if edge is not None and part.grain is not Grain.ROWS:
                assert floor(edge, part.grain) == edge
        if part.grain is not Grain.DAYS:
            coarser = Grain.HOURS if part.grain is Grain.ROWS else Grain.DAYS
            assert part.since is not None
            assert part.until is not None
            assert part.until <= floor(part.since, coarser) + LENGTH[coarser]


def test_a_long_window_is_mostly_days() -> None:
    window = Coverage(since=hours(22.5), until=hours(75.25))
    assert parts(window) == [
        Part(grain=Grain.ROWS, since=hours(22.5), until=hours(23)),
        Part(grain=Grain.HOURS, since=hours(23), until=hours(24)),
        Part(grain=Grain.DAYS, since=hours(24), until=hours(72)),
        Part(grain=Grain.HOURS, since=hours(72), until=hours(75)),
        Part(grain=Grain.ROWS, since=hours(75), until=hours(75.25)),
    ]


def test_everything_is_days_alone() -> None:
    window = Coverage(since=None, until=None)
    assert parts(window) == [Part(grain=Grain.DAYS, since=None, until=None)]


def test_hours_and_days_are_those_of_utc() -> None:
    in_india = datetime(2026, 3, 1, 2, 15, tzinfo=timezone(timedelta(hours=5, minutes=30)))
    assert floor(in_india, Grain.HOURS) == datetime(2026, 2, 28, 20, tzinfo=UTC)
    assert ceiling(in_india, Grain.DAYS) == datetime(2026, 3, 1, tzinfo=UTC)


@given(bounds, bounds)
def test_a_window_whose_rows_and_hours_are_there_stays_as_it_is(
    since: datetime | None, until: datetime | None
) -> None:
    window = Coverage(since=since, until=until)
    assert widened(window, lambda _start, _grain: True) == window


@pytest.mark.parametrize(
    ("kept", "since", "until"),
    [
        (set(), hours(0), hours(48)),
        ({Grain.DAYS}, hours(10), hours(34)),
        ({Grain.HOURS}, hours(0), hours(48)),
    ],
)
def test_an_edge_moves_outwards_to_what_is_still_there(
    kept: set[Grain], since: datetime, until: datetime
) -> None:
    window = Coverage(since=hours(10.5), until=hours(33.5))
    found = widened(window, lambda _start, grain: grain in kept)
    assert found == Coverage(since=since, until=until)
