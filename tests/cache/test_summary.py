"""The database's sums against the same figures worked out row by row."""

import math
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest
import sqlalchemy as sa
from hypothesis import given, settings
from hypothesis import strategies as st

from cache.errors import ReportGroupError
from cache.rows import LedgerRow, RequestStatus, insert_rows
from cache.summary import GROUPS, Summary, TokenSum, summaries
from cache.tables import ledger as table

EngineMaker = Callable[..., sa.Engine]
START = datetime(2026, 1, 1, tzinfo=UTC)

figures = st.none() | st.integers(0, 10**7)
seconds = st.none() | st.floats(0, 100) | st.sampled_from([0.25, 0.5])
rows = st.lists(
    st.builds(
        LedgerRow,
        request_id=st.uuids().map(str),
        at=st.integers(0, 20).map(lambda minutes: START + timedelta(minutes=minutes)),
        tenant=st.sampled_from(["a", "b"]),
        template=st.sampled_from(["chat@1", "docqa@1", "docqa@2"]),
        collection=st.none() | st.sampled_from(["", "handbook"]),
        mode=st.none() | st.just("rag"),
        replica=st.none(),
        status=st.sampled_from(RequestStatus),
        prompt_tokens=figures,
        ideal_tokens=st.none(),
        cached_tokens=figures,
        cached_gpu=figures,
        cached_ram=figures,
        cached_ssd=figures,
        cached_redis=figures,
        cached_storage=figures,
        completion_tokens=figures,
        ttft_s=seconds,
        e2e_s=seconds,
        verdict=st.none(),
        divergence=st.none(),
        error_code=st.none(),
    ),
    max_size=25,
    unique_by=lambda row: row.request_id,
)


@pytest.fixture(scope="module")
def emptied(open_database: EngineMaker) -> Callable[[list[LedgerRow]], sa.Engine]:
    """One file for all examples, holding just the rows of the present one."""
    engine = open_database()

    def fill(rows: list[LedgerRow]) -> sa.Engine:
        with engine.begin() as connection:
            connection.execute(sa.delete(table))
            if rows:
                insert_rows(connection, rows)
        return engine

    return fill


def naive_percentile(values: list[float], percent: int) -> float | None:
    """The smallest value such that at least `percent` % of the values are not above it."""
    for value in sorted(values):
        if 100 * sum(other <= value for other in values) >= percent * len(values):
            return value
    return None


def naive_sum(values: list[int | None]) -> TokenSum:
    known = [value for value in values if value is not None]
    return TokenSum(
        tokens=sum(known), known_requests=len(known), unknown_requests=len(values) - len(known)
    )


def check(summary: Summary, rows: list[LedgerRow]) -> None:
    assert summary.requests == len(rows)
    assert summary.errors == sum(row.status == "error" for row in rows)
    assert summary.aborted == sum(row.status == "aborted" for row in rows)
    assert summary.prompt == naive_sum([row.prompt_tokens for row in rows])
    assert summary.completion == naive_sum([row.completion_tokens for row in rows])
    assert summary.cached == naive_sum([row.cached_tokens for row in rows])
    for tier in ("gpu", "ram", "ssd", "redis", "storage"):
        expected = naive_sum([getattr(row, f"cached_{tier}") for row in rows])
        assert getattr(summary.by_tier, tier) == expected
    both = [
        (row.cached_tokens, row.prompt_tokens)
        for row in rows
        if row.cached_tokens is not None and row.prompt_tokens is not None
    ]
    assert summary.hit.requests == len(both)
    cached, prompt = sum(pair[0] for pair in both), sum(pair[1] for pair in both)
    assert summary.hit.rate == (cached / prompt if prompt else None)
    times = [row.ttft_s for row in rows if row.ttft_s is not None]
    assert summary.ttft.requests == len(times)
    assert summary.ttft.p50_s == naive_percentile(times, 50)
    assert summary.ttft.p90_s == naive_percentile(times, 90)


@settings(max_examples=60, deadline=None)
@given(rows, st.lists(st.sampled_from(GROUPS), unique=True, max_size=3))
def test_summaries_equal_a_naive_recomputation(
    emptied: Callable[[list[LedgerRow]], sa.Engine], rows: list[LedgerRow], by: list[str]
) -> None:
    with emptied(rows).connect() as connection:
        found = summaries(connection, by=by)
    expected: dict[tuple[str | None, ...], list[LedgerRow]] = {}
    for row in rows:
        expected.setdefault(tuple(getattr(row, name) for name in by), []).append(row)
    assert {tuple(summary.group.values()) for summary in found} == set(expected)
    assert len(found) == len(expected)
    for summary in found:
        assert tuple(summary.group) == tuple(by)
        check(summary, expected[tuple(summary.group.values())])


@settings(max_examples=30, deadline=None)
@given(rows, st.none() | st.integers(0, 20), st.none() | st.integers(0, 20))
def test_the_window_takes_its_start_and_leaves_its_end(
    emptied: Callable[[list[LedgerRow]], sa.Engine],
    rows: list[LedgerRow],
    since: int | None,
    until: int | None,
) -> None:
    first = START + timedelta(minutes=since) if since is not None else None
    last = START + timedelta(minutes=until) if until is not None else None
    inside = [row for row in rows if (not first or row.at >= first) and (not last or row.at < last)]
    with emptied(rows).connect() as connection:
        found = summaries(connection, since=first, until=last, by=())
    assert len(found) == bool(inside)
    for summary in found:
        check(summary, inside)


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
    assert math.isclose(summary.prompt.tokens, 6000)
    assert summary.cached.unknown_requests == 1


def test_an_unknown_group_is_refused_with_the_known_ones(database: sa.Engine) -> None:
    with database.connect() as connection, pytest.raises(ReportGroupError, match="template"):
        summaries(connection, by=["request_id"])
