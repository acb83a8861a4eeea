from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import sqlalchemy as sa

from cache.crosscheck import SourceTokens, cross_check
from cache.engine_metrics import CachedTokens, CacheSource, EngineDelta, delta, parse_engine_metrics
from cache.retention import Retention, purge_some
from cache.rows import LedgerRow, RequestStatus, insert_rows

RowMaker = Callable[..., LedgerRow]
START = datetime(2026, 1, 2, tzinfo=UTC)
END = START + timedelta(hours=12)
REPLICA = "http://127.0.0.1:30000"

# The requests that the captured counters saw, but for one with n=2 (below).
TRAFFIC = (
    ("docqa@1", "t1", 0, 0),
    ("docqa@1", "t1", 1200, 0),
    ("docqa@1", "t1", 1200, 0),
    ("docqa@1", "t2", 0, 0),
    ("chat@1", "t1", 0, 0),
    ("docqa@1", "t1", 0, 1152),
    ("docqa@1", "t2", 0, 1152),
)


def counted(*series: tuple[str | None, CacheSource, int], resets: int = 0) -> EngineDelta:
    return EngineDelta(
        since=START,
        until=END,
        cached=tuple(
            CachedTokens(template=template, tenant="t1", source=source, tokens=tokens)
            for template, source, tokens in series
        ),
        prompt_tokens=0,
        requests=0,
        resets=resets,
    )


def hit(make_row: RowMaker, gpu: int, storage: int = 0, **changes: object) -> LedgerRow:
    figures = {"cached_tokens": gpu + storage, "cached_gpu": gpu, "cached_storage": storage}
    return make_row(**figures, **changes)


@pytest.fixture
def connection(database: sa.Engine) -> sa.Connection:
    with database.begin() as connection:
        yield connection


def test_the_real_engines_counters_agree_with_its_responses(
    connection: sa.Connection, make_row: RowMaker, captured: Path
) -> None:
    before, after = (
        parse_engine_metrics((captured / f"sglang_{name}.prom").read_text(), at=at)
        for name, at in (("idle", START), ("after", END))
    )
    rows = [
        hit(make_row, gpu, storage, template=template, tenant=tenant)
        for template, tenant, gpu, storage in TRAFFIC
    ]
    insert_rows(connection, rows)
    check = cross_check(connection, delta(before, after))
    assert [line.template for line in check.lines] == ["chat@1", "docqa@1"]
    docqa = check.lines[1]
    assert docqa.responses == SourceTokens(gpu=2400, storage=2304)
    # One request had n=2: the engine runs its prompt once ahead, then twice, and counts all three.
    assert docqa.engine == SourceTokens(gpu=2400 + 3 * 1200, storage=2304)
    assert check.unlabelled_tokens == 1200


def test_equal_counts_differ_by_nothing(connection: sa.Connection, make_row: RowMaker) -> None:
    insert_rows(connection, [hit(make_row, 10, 5), hit(make_row, 20, tenant="t2")])
    check = cross_check(
        connection,
        counted(("docqa@1", CacheSource.DEVICE, 30), ("docqa@1", CacheSource.STORAGE, 5)),
    )
    assert check.difference_tokens == 0
    assert check.difference_ratio == 0.0


def test_the_difference_is_relative_to_the_engines_count(
    connection: sa.Connection, make_row: RowMaker
) -> None:
    insert_rows(connection, [hit(make_row, 90)])
    check = cross_check(connection, counted(("docqa@1", CacheSource.DEVICE, 100)))
    assert (check.difference_tokens, check.difference_ratio) == (-10, -0.1)


def test_a_difference_against_zero_has_no_ratio(
    connection: sa.Connection, make_row: RowMaker
) -> None:
    insert_rows(connection, [hit(make_row, 90)])
    check = cross_check(connection, counted(("chat@1", CacheSource.DEVICE, 0)))
    docqa = check.lines[1]
    assert (docqa.difference_tokens, docqa.difference_ratio) == (90, None)


def test_requests_with_unknown_figures_are_counted_apart(
    connection: sa.Connection, make_row: RowMaker
) -> None:
    refused = make_row(status=RequestStatus.ERROR, replica=None, error_code="context_length")
    unknown = [make_row(replica=REPLICA), make_row(replica=REPLICA, template="chat@1")]
    insert_rows(connection, [hit(make_row, 16), *unknown, refused])
    check = cross_check(connection, counted(("docqa@1", CacheSource.DEVICE, 16)))
    assert check.unknown_requests == 2
    assert check.difference_tokens == 0


def test_known_tokens_without_a_split_still_count(
    connection: sa.Connection, make_row: RowMaker
) -> None:
    insert_rows(connection, [make_row(cached_tokens=64), hit(make_row, 16)])
    check = cross_check(connection, counted(("docqa@1", CacheSource.TOTAL, 80)))
    assert check.lines[0].responses == SourceTokens(gpu=16, unsplit=64)
    assert check.lines[0].engine == SourceTokens(unsplit=80)
    assert check.difference_tokens == 0


def test_an_engine_that_counts_no_labels_is_compared_by_its_sum(
    connection: sa.Connection, make_row: RowMaker
) -> None:
    insert_rows(connection, [hit(make_row, 10), hit(make_row, 0, 5, template="chat@1")])
    check = cross_check(
        connection, counted((None, CacheSource.DEVICE, 10), (None, CacheSource.HOST, 5))
    )
    (line,) = check.lines
    assert line.template is None
    assert line.responses == line.engine == SourceTokens(gpu=10, storage=5)
    assert check.unlabelled_tokens == 0


def test_other_peoples_traffic_alone_is_no_difference(
    connection: sa.Connection, make_row: RowMaker
) -> None:
    insert_rows(connection, [hit(make_row, 0)])
    check = cross_check(connection, counted((None, CacheSource.DEVICE, 500)))
    assert check.difference_tokens == 0
    assert check.unlabelled_tokens == 500


def test_only_requests_that_ended_in_the_window_are_compared(
    connection: sa.Connection, make_row: RowMaker
) -> None:
    times = START - timedelta(seconds=1), START, END - timedelta(seconds=1), END
    insert_rows(connection, [hit(make_row, 1, at=at) for at in times])
    check = cross_check(connection, counted(("docqa@1", CacheSource.DEVICE, 2)))
    assert check.difference_tokens == 0


def test_a_restart_of_the_engine_is_passed_on(connection: sa.Connection) -> None:
    assert cross_check(connection, replace(counted(), resets=2)).resets == 2


def test_a_window_whose_edge_rows_are_gone_is_unknown_and_a_later_whole_one_is_compared(
    connection: sa.Connection, make_row: RowMaker
) -> None:
    begun = START + timedelta(minutes=30)
    early, inside = START + timedelta(minutes=10), START + timedelta(minutes=40)
    later = START + timedelta(hours=3, minutes=10)
    insert_rows(connection, [hit(make_row, 7, at=at) for at in (early, inside, later)])
    longest = replace(counted(("docqa@1", CacheSource.DEVICE, 14)), since=begun)
    newest = replace(counted(("docqa@1", CacheSource.DEVICE, 7)), since=START + timedelta(hours=3))

    assert cross_check(connection, longest, newest).since == begun
    assert cross_check(connection, longest).difference_tokens == 0

    purge_some(
        connection, Retention(rows_days=1), now=START + timedelta(days=1, hours=1, minutes=1)
    )
    check = cross_check(connection, longest)
    assert (check.is_whole, check.lines, check.difference_ratio) == (False, (), None)
    check = cross_check(connection, longest, newest)
    assert (check.is_whole, check.since, check.difference_tokens) == (True, newest.since, 0)
