"""Roll-ups count each row that really entered the table once, whatever is tried again."""

import threading
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
import sqlalchemy as sa
from hypothesis import given, settings
from hypothesis import strategies as st

from cache.backfill import count_rows_once
from cache.labels import LabelCaps
from cache.ledger import Ledger
from cache.rows import LedgerRow, RequestStatus, insert_rows
from cache.summary import GROUPS, rescan, summaries
from cache.tables import ledger, ledger_days, ledger_hours, metadata

EngineMaker = Callable[..., sa.Engine]
RowMaker = Callable[..., LedgerRow]
START = datetime(2026, 1, 1, tzinfo=UTC)
ALL = tuple(GROUPS)


def counted(connection: sa.Connection) -> list[int]:
    """Requests by the rows, by the hours and by the days; the same three times if all is well."""
    by_rows = connection.scalar(sa.select(sa.func.count()).select_from(ledger))
    found = [by_rows or 0]
    for table in (ledger_hours, ledger_days):
        of_all = sa.select(sa.func.sum(table.c.requests)).where(table.c.grouping == 0)
        found.append(int(connection.scalar(of_all) or 0))
    return found


def number_of(row_id: int, attempt: int) -> LedgerRow:
    """What is recorded for a request again differs, so that counting it twice would show."""
    return LedgerRow(
        request_id=f"r{row_id}",
        at=START + timedelta(minutes=17 * row_id),
        tenant=f"t{row_id % 3}",
        template="chat@1",
        status=RequestStatus.OK,
        prompt_tokens=100 + attempt,
        cached_tokens=None if row_id % 4 == 0 else 10 * attempt,
        ttft_s=0.1 + attempt,
    )


@pytest.fixture(scope="module")
def of_all_examples(open_database: EngineMaker) -> sa.Engine:
    return open_database()


@settings(max_examples=15)
@given(st.lists(st.lists(st.integers(0, 12), max_size=8), max_size=6))
def test_batches_that_are_tried_again_and_repeated_ids_count_once(
    of_all_examples: sa.Engine, batches: list[list[int]]
) -> None:
    new: list[int] = []
    with of_all_examples.begin() as connection:
        for table in metadata.sorted_tables:
            connection.execute(sa.delete(table))
        for attempt, ids in enumerate(batches):
            new.append(insert_rows(connection, [number_of(row_id, attempt) for row_id in ids]))
        seen = {row_id for ids in batches for row_id in ids}
        assert counted(connection) == [len(seen)] * 3
        assert sum(new) == len(seen)
        assert summaries(connection, by=ALL) == rescan(connection, by=ALL)


def test_a_transaction_that_is_rolled_back_counts_nothing(
    database: sa.Engine, make_row: RowMaker
) -> None:
    with database.connect() as connection:
        insert_rows(connection, [make_row()])
        connection.rollback()
        assert counted(connection) == [0, 0, 0]


def test_a_row_at_fault_takes_no_other_rows_count_with_it(
    database: sa.Engine, make_row: RowMaker
) -> None:
    writer = Ledger(database, flush_s=60)
    for row in (make_row(), make_row(status="vanished"), make_row()):
        writer.record(row)
    writer.close()
    with database.connect() as connection:
        assert counted(connection) == [2, 2, 2]


def test_two_writers_of_the_same_requests_count_each_once(open_database: EngineMaker) -> None:
    first = open_database()
    engines = [first, open_database(first)]

    def work(engine: sa.Engine, attempt: int) -> None:
        writer = Ledger(engine, flush_s=0, max_batch=7, retry_s=0.005, retry_max_s=0.02)
        for row_id in range(120):
            writer.record(number_of(row_id, attempt))
        assert writer.flush(timeout_s=60)
        writer.close()

    threads = [threading.Thread(target=work, args=(e, n)) for n, e in enumerate(engines)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with first.connect() as connection:
        assert counted(connection) == [120, 120, 120]
        assert summaries(connection, by=ALL) == rescan(connection, by=ALL)


def test_rows_from_before_the_roll_ups_are_counted_once(
    database: sa.Engine, make_row: RowMaker
) -> None:
    with database.begin() as connection:
        insert_rows(connection, [number_of(row_id, 1) for row_id in range(30)])
        before = summaries(connection, by=ALL)
        connection.execute(sa.update(ledger).values(series=None))
        for table in (ledger_hours, ledger_days):
            connection.execute(sa.delete(table))
        assert count_rows_once(connection, LabelCaps()) == 30
        assert summaries(connection, by=ALL) == before
        assert count_rows_once(connection, LabelCaps()) == 0
        assert summaries(connection, by=ALL) == before


@pytest.mark.parametrize("seconds", [float("nan"), float("inf"), None])
def test_a_time_that_is_no_number_is_not_known(
    database: sa.Engine, make_row: RowMaker, seconds: float | None
) -> None:
    with database.begin() as connection:
        insert_rows(connection, [replace(make_row(), ttft_s=seconds)])
        (summary,) = summaries(connection)
        assert summary.ttft.requests == 0
        assert connection.scalars(sa.select(ledger.c.ttft_s)).all() == [None]


def test_prompt_text_is_stored_with_what_no_database_takes_replaced(
    database: sa.Engine, make_row: RowMaker
) -> None:
    with database.begin() as connection:
        insert_rows(connection, [make_row(prompt_text="a\0b\ud800c")])
        assert connection.scalars(sa.select(ledger.c.prompt_text)).all() == ["a\ufffdb?c"]


def test_a_group_says_unknown_apart_from_zero(database: sa.Engine, make_row: RowMaker) -> None:
    with database.begin() as connection:
        insert_rows(connection, [make_row(cached_ram=0), make_row(cached_ram=None)])
        (summary,) = summaries(connection)
    ram, ssd = summary.by_tier.ram, summary.by_tier.ssd
    assert (ram.tokens, ram.known_requests, ram.unknown_requests) == (0, 1, 1)
    assert (ssd.known_requests, ssd.unknown_requests) == (0, 2)


def test_more_rows_than_one_statement_takes_are_each_counted_once(
    open_file: EngineMaker, make_row: RowMaker
) -> None:
    rows = [make_row(tenant=f"t{number % 300}") for number in range(1_200)]
    with open_file().begin() as connection:
        assert insert_rows(connection, [*rows, *rows[:50]]) == 1_200
        assert counted(connection) == [1_200, 1_200, 1_200]
        assert summaries(connection, by=ALL) == rescan(connection, by=ALL)
