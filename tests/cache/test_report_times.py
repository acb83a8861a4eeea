"""Intervals of a report's plot over time, and buckets of its times to first token."""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta

import pytest
import sqlalchemy as sa
from hypothesis import given, settings
from hypothesis import strategies as st

from cache.histograms import Histogram
from cache.report_times import over_time, ttft_split
from cache.report_values import OverTime
from cache.rows import LedgerRow, insert_rows
from cache.summary import HitRate, Percentiles, Summary, TierSums, TokenSum
from cache.tables import ledger_hours

RowMaker = Callable[..., LedgerRow]
FileMaker = Callable[[], sa.Engine]
START = datetime(2026, 1, 2, 4, tzinfo=UTC)
NO_TOKENS = TokenSum(tokens=0, known_requests=0, unknown_requests=0)
NO_TIMES = Percentiles(requests=0, p50_s=None, p90_s=None)


@pytest.fixture
def lines(open_file: FileMaker, make_row: RowMaker) -> Callable[..., OverTime]:
    """The intervals of requests that ended so long after the start, half of each re-used."""

    def make(after: Sequence[timedelta], *, without_hours: bool = False) -> OverTime:
        rows = [make_row(at=START + t, prompt_tokens=32, cached_tokens=16) for t in after]
        with open_file().begin() as connection:
            insert_rows(connection, rows)
            if without_hours:
                connection.execute(sa.delete(ledger_hours))
            found = over_time(connection, ["docqa@1"], since=None, until=None)
        assert found is not None
        assert sum(point.requests for point in found.everything.points) == len(after)
        assert all(point.hit_rate == 0.5 for point in found.everything.points)
        assert found.templates[0].points == found.everything.points
        return found

    return make


@pytest.mark.parametrize(
    ("last", "step"),
    [
        (timedelta(minutes=50), timedelta(minutes=5)),
        (timedelta(hours=2, minutes=59), timedelta(minutes=5)),
        (timedelta(hours=3), timedelta(hours=1)),
        (timedelta(days=2), timedelta(hours=1)),
        (timedelta(days=7), timedelta(hours=3)),
        (timedelta(days=20), timedelta(hours=12)),
        (timedelta(days=40), timedelta(days=1)),
    ],
)
def test_a_longer_time_has_longer_intervals(
    lines: Callable[..., OverTime], last: timedelta, step: timedelta
) -> None:
    found = lines([timedelta(0), last / 2, last])
    assert found.step == step
    assert len(found.everything.points) <= 60


def test_days_are_told_where_hours_are_no_longer_kept(lines: Callable[..., OverTime]) -> None:
    found = lines([timedelta(0), timedelta(days=2)], without_hours=True)
    assert found.step == timedelta(days=1)
    assert [point.at.day for point in found.everything.points] == [2, 4]


def test_without_requests_there_is_nothing_over_time(open_file: FileMaker) -> None:
    with open_file().begin() as connection:
        assert over_time(connection, [], since=None, until=None) is None


def summary(hits: list[float], misses: list[float]) -> Summary:
    return Summary(
        group={}, requests=1, errors=0, aborted=0, prompt=NO_TOKENS, completion=NO_TOKENS,
        cached=NO_TOKENS, hit=HitRate(cached_tokens=0, prompt_tokens=0, requests=0),
        by_tier=TierSums(**dict.fromkeys(("gpu", "ram", "ssd", "redis", "storage"), NO_TOKENS)),
        ttft=NO_TIMES, ttft_hits=times(hits), ttft_misses=times(misses),
    )  # fmt: skip


def times(seconds: list[float]) -> Percentiles:
    histogram = Histogram.of(seconds)
    return Percentiles(requests=len(seconds), p50_s=None, p90_s=None, histogram=histogram)


seconds = st.lists(st.floats(0, 10**5), max_size=20)


@settings(deadline=None)
@given(seconds, seconds)
def test_every_time_is_in_one_bucket_and_the_bounds_are_shared(
    hits: list[float], misses: list[float]
) -> None:
    split = ttft_split(summary(hits, misses))
    for kind, given_times in ((split.with_hits, hits), (split.without, misses)):
        assert sum(number for _, number in kind.buckets) == len(given_times)
    bounds = [bound for bound, _ in split.with_hits.buckets]
    assert bounds == sorted(set(bounds)) == [bound for bound, _ in split.without.buckets]
