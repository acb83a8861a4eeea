"""Sums from roll-ups and rows against the same figures worked out row by row."""

from collections import Counter
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta

import pytest
import sqlalchemy as sa
from hypothesis import given, settings
from hypothesis import strategies as st

from cache.errors import ReportGroupError
from cache.histograms import Histogram
from cache.rows import LedgerRow, RequestStatus, insert_rows
from cache.summary import (
    GROUPS,
    Percentiles,
    Step,
    Summary,
    TokenSum,
    moments,
    rescan,
    summaries,
    versions,
)
from cache.tables import metadata
from cache.verdicts import Verdict

EngineMaker = Callable[..., sa.Engine]
Fill = Callable[[list[LedgerRow]], sa.Engine]
START = datetime(2026, 1, 1, tzinfo=UTC)

figures = st.none() | st.integers(0, 10**7)
seconds = st.none() | st.floats(0, 100) | st.sampled_from([0.25, 0.5])
# Four days, with many rows and bounds on whole hours and days.
instants = (
    st.integers(0, 4 * 24 * 60).map(lambda minutes: START + timedelta(minutes=minutes))
    | st.integers(0, 4 * 24).map(lambda hours: START + timedelta(hours=hours))
    | st.integers(0, 4).map(lambda days: START + timedelta(days=days))
)
rows = st.lists(
    st.builds(
        LedgerRow,
        request_id=st.uuids().map(str),
        at=instants,
        tenant=st.sampled_from(["a", "b"]),
        template=st.sampled_from(["chat@1", "docqa@1", "docqa@2"]),
        collection=st.none() | st.sampled_from(["", "handbook"]),
        mode=st.none() | st.just("rag"),
        replica=st.none(),
        status=st.sampled_from(RequestStatus),
        prompt_tokens=figures,
        ideal_tokens=figures,
        predicted_tokens=figures | st.just(64),
        cached_tokens=figures | st.sampled_from([0, 64]),
        cached_gpu=figures,
        cached_ram=figures,
        cached_ssd=figures,
        cached_redis=figures,
        cached_storage=figures,
        completion_tokens=figures,
        new_tokens=figures,
        ttft_s=seconds,
        e2e_s=seconds,
        verdict=st.none() | st.sampled_from(Verdict),
        lost=st.none()
        | st.dictionaries(st.sampled_from(["changed", "evicted", "unknown"]), st.integers(1, 999)),
        divergence=st.none(),
        error_code=st.none() | st.just("engine_timeout"),
    ),
    max_size=25,
    unique_by=lambda row: row.request_id,
)
groups = st.lists(st.sampled_from(GROUPS), unique=True, max_size=3)


@pytest.fixture(scope="module")
def emptied(open_database: EngineMaker) -> Fill:
    """One database for all examples, holding just the rows of the present one."""
    engine = open_database()

    def fill(rows: list[LedgerRow]) -> sa.Engine:
        with engine.begin() as connection:
            for table in metadata.sorted_tables:
                connection.execute(sa.delete(table))
            insert_rows(connection, rows)
        return engine

    return fill


def naive_sum(values: list[int | None]) -> TokenSum:
    known = [value for value in values if value is not None]
    return TokenSum(
        tokens=sum(known), known_requests=len(known), unknown_requests=len(values) - len(known)
    )


def naive_times(values: Iterable[float | None]) -> Percentiles:
    histogram = Histogram.of(value for value in values if value is not None)
    p50_s, p90_s, p99_s = (histogram.quantile_s(percent) for percent in (50, 90, 99))
    return Percentiles(
        requests=histogram.requests, p50_s=p50_s, p90_s=p90_s, p99_s=p99_s, histogram=histogram
    )


def known(rows: list[LedgerRow], *names: str) -> list[list[int]]:
    """The columns `names` of the rows in which all of them are known."""
    values = [[getattr(row, name) for name in names] for row in rows]
    return [row for row in values if None not in row]


def check(summary: Summary, rows: list[LedgerRow]) -> None:
    assert summary.requests == len(rows)
    assert summary.errors == sum(row.status == "error" for row in rows)
    assert summary.aborted == sum(row.status == "aborted" for row in rows)
    for name in ("prompt", "completion", "cached", "ideal", "predicted", "new"):
        expected = naive_sum([getattr(row, f"{name}_tokens") for row in rows])
        assert getattr(summary, name) == expected
    for tier in ("gpu", "ram", "ssd", "redis", "storage"):
        expected = naive_sum([getattr(row, f"cached_{tier}") for row in rows])
        assert getattr(summary.by_tier, tier) == expected
    check_reuse(summary, rows)
    check_verdicts(summary, rows)
    check_times(summary, rows)


def check_reuse(summary: Summary, rows: list[LedgerRow]) -> None:
    both = known(rows, "cached_tokens", "prompt_tokens")
    assert summary.hit.requests == len(both)
    cached, prompt = sum(pair[0] for pair in both), sum(pair[1] for pair in both)
    assert summary.hit.rate == (cached / prompt if prompt else None)
    pairs = known(rows, "predicted_tokens", "cached_tokens")
    assert summary.foretold.requests == len(pairs)
    assert summary.foretold.exact == sum(one == other for one, other in pairs)
    assert summary.foretold.predicted_tokens == sum(pair[0] for pair in pairs)
    assert summary.foretold.cached_tokens == sum(pair[1] for pair in pairs)
    names = ("prompt_tokens", "ideal_tokens", "cached_tokens", "new_tokens")
    accounted = known([row for row in rows if row.lost is not None], *names)
    assert summary.accounted.requests == len(accounted)
    for place, name in enumerate(names):
        assert getattr(summary.accounted, name) == sum(row[place] for row in accounted)


def check_verdicts(summary: Summary, rows: list[LedgerRow]) -> None:
    assert summary.verdicts == Counter(row.verdict for row in rows if row.verdict is not None)
    assert summary.unjudged == sum(row.verdict is None for row in rows)
    lost: Counter[str] = Counter()
    for row in rows:
        lost.update(row.lost or {})
    assert summary.lost.tokens == lost
    assert summary.lost.requests == sum(row.lost is not None for row in rows)


def check_times(summary: Summary, rows: list[LedgerRow]) -> None:
    kinds = {"hits": [], "misses": [], "unknown": []}  # type: dict[str, list[float | None]]
    for row in rows:
        reused = row.cached_tokens
        kind = "unknown" if reused is None else "hits" if reused else "misses"
        kinds[kind].append(row.ttft_s)
    for kind, times in kinds.items():
        assert getattr(summary, f"ttft_{kind}") == naive_times(times)
    assert summary.ttft == naive_times(row.ttft_s for row in rows)
    assert summary.e2e == naive_times(row.e2e_s for row in rows)


def grouped(rows: list[LedgerRow], by: list[str]) -> dict[tuple[str | None, ...], list[LedgerRow]]:
    found: dict[tuple[str | None, ...], list[LedgerRow]] = {}
    for row in rows:
        found.setdefault(tuple(getattr(row, name) for name in by), []).append(row)
    return found


@settings(max_examples=15)
@given(rows, groups)
def test_summaries_equal_a_naive_recomputation(
    emptied: Fill, rows: list[LedgerRow], by: list[str]
) -> None:
    with emptied(rows).connect() as connection:
        found = summaries(connection, by=by)
    expected = grouped(rows, by)
    assert {tuple(summary.group.values()) for summary in found} == set(expected)
    assert len(found) == len(expected)
    for summary in found:
        assert tuple(summary.group) == tuple(by)
        check(summary, expected[tuple(summary.group.values())])


@settings(max_examples=20)
@given(rows, st.none() | instants, st.none() | instants, groups)
def test_rollups_give_the_same_as_a_rescan_of_the_rows_in_any_window(
    emptied: Fill,
    rows: list[LedgerRow],
    since: datetime | None,
    until: datetime | None,
    by: list[str],
) -> None:
    inside = [
        row for row in rows if (not since or row.at >= since) and (not until or row.at < until)
    ]
    with emptied(rows).connect() as connection:
        found = summaries(connection, since=since, until=until, by=by)
        assert found == rescan(connection, since=since, until=until, by=by)
    assert sum(summary.requests for summary in found) == len(inside)
    for summary in summaries_of_one(found, by):
        check(summary, inside)


def summaries_of_one(found: list[Summary], by: list[str]) -> list[Summary]:
    return [] if by else found


@settings(max_examples=10)
@given(rows, st.none() | instants, st.none() | instants, groups, st.sampled_from(Step))
def test_moments_are_the_summaries_of_each_hour_or_day(
    emptied: Fill,
    rows: list[LedgerRow],
    since: datetime | None,
    until: datetime | None,
    by: list[str],
    step: Step,
) -> None:
    length = timedelta(hours=1) if step is Step.HOUR else timedelta(days=1)
    with emptied(rows).connect() as connection:
        found = moments(connection, since=since, until=until, by=by, step=step)
        expected = [
            (start, summary)
            for start in sorted({START + (row.at - START) // length * length for row in rows})
            for summary in summaries(
                connection,
                since=max(start, since or start),
                until=min(start + length, until or start + length),
                by=by,
            )
        ]
    assert [(moment.start, moment.summary) for moment in found] == expected


def test_a_request_that_ended_on_a_bound_is_in_the_later_window_only(
    database: sa.Engine, make_row: Callable[..., LedgerRow]
) -> None:
    minutes = [START + timedelta(minutes=minute) for minute in range(3)]
    with database.begin() as connection:
        insert_rows(connection, [make_row(at=minutes[1])])
        earlier = summaries(connection, since=minutes[0], until=minutes[1])
        later = summaries(connection, since=minutes[1], until=minutes[2])
    assert earlier == []
    assert [summary.requests for summary in later] == [1]


def test_groups_come_in_order_and_none_comes_last(
    database: sa.Engine, make_row: Callable[..., LedgerRow]
) -> None:
    with database.begin() as connection:
        insert_rows(connection, [make_row(collection=name) for name in ("b", None, "a", "b")])
        found = summaries(connection, by=["collection"])
    assert [summary.group["collection"] for summary in found] == ["a", "b", None]


def test_the_hit_rate_is_weighted_by_tokens(
    database: sa.Engine, make_row: Callable[..., LedgerRow]
) -> None:
    with database.begin() as connection:
        insert_rows(
            connection,
            [
                make_row(prompt_tokens=900, cached_tokens=900),
                make_row(prompt_tokens=100, cached_tokens=0),
                make_row(prompt_tokens=5000),
            ],
        )
        (summary,) = summaries(connection)
    assert summary.hit.rate == 0.9
    assert summary.prompt.tokens == 6000
    assert summary.cached.unknown_requests == 1


def test_an_unknown_group_is_refused_with_the_known_ones(database: sa.Engine) -> None:
    with database.connect() as connection, pytest.raises(ReportGroupError, match="template"):
        summaries(connection, by=["request_id"])


def test_versions_of_a_template_come_in_their_order(
    database: sa.Engine, make_row: Callable[..., LedgerRow]
) -> None:
    names = ["docqa@10", "docqa@9", "chat", "docqa@beta", "docqa@2"]
    with database.begin() as connection:
        insert_rows(connection, [make_row(template=name) for name in names])
        found = versions(summaries(connection))
    assert [version for version, _ in found["docqa"]] == ["2", "9", "10", "beta"]
    assert [version for version, _ in found["chat"]] == [""]
    assert found["docqa"][0][1].group == {"template": "docqa@2"}


@settings(max_examples=40)
@given(rows=rows, by=groups, since=st.none() | instants, until=st.none() | instants)
def test_one_tenants_sums_are_those_of_its_requests_alone(
    emptied: Fill,
    rows: list[LedgerRow],
    by: list[str],
    since: datetime | None,
    until: datetime | None,
) -> None:
    with emptied(rows).connect() as connection:
        of_one = summaries(connection, since=since, until=until, by=by, tenant="a")
        by_hour = moments(connection, since=since, until=until, by=by, tenant="a")
        assert summaries(connection, by=by, tenant="nobody") == []
    with emptied([row for row in rows if row.tenant == "a"]).connect() as connection:
        assert of_one == summaries(connection, since=since, until=until, by=by)
        assert by_hour == moments(connection, since=since, until=until, by=by)
