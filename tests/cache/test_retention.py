"""What is old goes, oldest first and a few at a time; what is left still adds up."""

import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest
import sqlalchemy as sa

from cache.ledger import Ledger
from cache.retention import Retention, purge_some
from cache.rows import LedgerRow, insert_rows
from cache.summary import coverage, summaries
from cache.tables import ledger, ledger_days, ledger_hours, ledger_series
from cache.windows import Coverage

RowMaker = Callable[..., LedgerRow]
NOW = datetime(2026, 6, 30, 12, 30, tzinfo=UTC)
KEPT_ROWS = 7
KEPT = Retention(rows_days=2, hourly_days=5, daily_days=20, max_rows=None)


def fill(connection: sa.Connection, make_row: RowMaker) -> None:
    """One request every six hours of the last thirty days, ten minutes past the hour."""
    first = NOW.replace(hour=6, minute=10) - timedelta(days=30)
    rows = [
        make_row(at=first + timedelta(hours=6 * number), tenant=f"t{number // 60}", prompt_tokens=1)
        for number in range(120)
    ]
    insert_rows(connection, rows)


def purge_all(connection: sa.Connection, retention: Retention, **options: int) -> list[int]:
    deleted = []
    while some := purge_some(connection, retention, now=NOW, **options):
        deleted.append(some)
    return deleted


def count(connection: sa.Connection, table: sa.Table) -> int:
    return int(connection.scalar(sa.select(sa.func.count()).select_from(table)) or 0)


def test_each_table_is_kept_for_its_own_time(database: sa.Engine, make_row: RowMaker) -> None:
    with database.begin() as connection:
        fill(connection, make_row)
        purge_all(connection, KEPT)
        oldest = connection.scalar(sa.select(sa.func.min(ledger.c.at)))
        assert oldest is not None
        assert NOW - timedelta(days=2, hours=1) <= oldest
        for table, days in ((ledger_hours, 5), (ledger_days, 20)):
            start = connection.scalar(sa.select(sa.func.min(table.c.start)))
            assert start is not None
            kept_for = NOW - datetime.fromtimestamp(start, UTC)
            assert timedelta(days=days - 1) < kept_for <= timedelta(days=days + 1)
        assert count(connection, ledger) == KEPT_ROWS


def test_rows_go_a_few_at_a_time(database: sa.Engine, make_row: RowMaker) -> None:
    with database.begin() as connection:
        fill(connection, make_row)
        deleted = purge_all(connection, KEPT, at_once=10)
        assert max(deleted) <= 10
        assert count(connection, ledger) == KEPT_ROWS


def test_sums_of_all_time_are_the_same_after_rows_and_hours_went(
    database: sa.Engine, make_row: RowMaker
) -> None:
    with database.begin() as connection:
        fill(connection, make_row)
        before = summaries(connection)
        purge_all(connection, Retention(rows_days=2, hourly_days=5, daily_days=60))
        assert summaries(connection) == before


def test_a_window_is_widened_to_what_is_left_and_says_so(
    database: sa.Engine, make_row: RowMaker
) -> None:
    def day(days: float) -> datetime:
        return NOW.replace(hour=0, minute=0) - timedelta(days=days)

    with database.begin() as connection:
        fill(connection, make_row)
        purge_all(connection, KEPT)
        minutes = timedelta(minutes=20)
        recent = Coverage(since=day(1) + minutes, until=None)
        assert coverage(connection, since=recent.since, until=None) == recent
        # Rows are gone, hours are there.
        of_hours = coverage(connection, since=day(3) + minutes, until=day(0))
        assert of_hours == Coverage(since=day(3), until=day(0))
        inside = day(3) + timedelta(hours=6) + minutes
        widened = coverage(connection, since=inside, until=None)
        assert widened == Coverage(since=day(3) + timedelta(hours=6), until=None)
        # Hours are gone too.
        whole_day = coverage(connection, since=inside - timedelta(days=7), until=None)
        assert whole_day == Coverage(since=day(10), until=None)
        (summary,) = summaries(connection, since=inside - timedelta(days=7), until=day(9))
        assert summary.requests == 4


def test_more_rows_than_allowed_go_before_their_time(
    database: sa.Engine, make_row: RowMaker
) -> None:
    everything = Retention(rows_days=99, hourly_days=99, daily_days=99, max_rows=50)
    with database.begin() as connection:
        fill(connection, make_row)
        purge_all(connection, everything, at_once=7)
        assert count(connection, ledger) == 50
        (summary,) = summaries(connection)
        assert summary.requests == 120


def test_labels_that_nothing_is_counted_under_give_their_places_back(
    database: sa.Engine, make_row: RowMaker
) -> None:
    with database.begin() as connection:
        fill(connection, make_row)
        assert set(connection.scalars(sa.select(ledger_series.c.tenant))) == {"t0", "t1", None}
        purge_all(connection, Retention(rows_days=2, hourly_days=3, daily_days=4))
        assert set(connection.scalars(sa.select(ledger_series.c.tenant))) == {"t1", None}


def test_the_ledgers_own_thread_purges_and_goes_on_writing(
    database: sa.Engine, make_row: RowMaker
) -> None:
    old = datetime.now(UTC) - timedelta(days=3)
    with database.begin() as connection:
        insert_rows(connection, [make_row(at=old) for _ in range(20)])
    writer = Ledger(database, flush_s=0.01, retention=KEPT, purge_every_s=0.01)
    deadline = time.monotonic() + 30
    while writer.status.purged < 20 and time.monotonic() < deadline:
        writer.record(make_row(at=datetime.now(UTC)))
        time.sleep(0.01)
    assert writer.flush(timeout_s=60)
    writer.close()
    assert writer.status.purged == 20
    assert writer.status.purge_error is None
    with database.connect() as connection:
        assert count(connection, ledger) == writer.status.written


def test_a_purge_that_fails_is_told_and_writes_go_on(
    database: sa.Engine, make_row: RowMaker
) -> None:
    with database.begin() as connection:
        connection.exec_driver_sql("ALTER TABLE ledger_days RENAME TO ledger_days_away")
    writer = Ledger(database, flush_s=0.01, retention=KEPT, purge_every_s=0.01)
    deadline = time.monotonic() + 30
    while writer.status.purge_error is None and time.monotonic() < deadline:
        time.sleep(0.01)
    assert writer.status.purge_error is not None
    with database.begin() as connection:
        connection.exec_driver_sql("ALTER TABLE ledger_days_away RENAME TO ledger_days")
    writer.record(make_row())
    assert writer.flush(timeout_s=60)
    writer.close()


@pytest.mark.parametrize(
    "periods",
    [{"rows_days": 0}, {"rows_days": 100}, {"daily_days": 91}, {"max_rows": 0}],
)
def test_periods_that_make_no_sense_are_refused(periods: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="must be"):
        Retention(**periods)  # type: ignore[arg-type]
