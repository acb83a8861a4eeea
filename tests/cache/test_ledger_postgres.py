"""The ledger while its PostgreSQL server goes away and comes back. A server of its own."""

import signal
import time
from collections.abc import Callable, Iterator

import pytest
import sqlalchemy as sa

from app.database import open_database
from cache.ledger import Ledger
from cache.rows import LedgerRow
from cache.summary import GROUPS, rescan, summaries
from cache.tables import ledger
from tests.postgres_server import PostgresServer, running_postgres

pytestmark = pytest.mark.slow

RowMaker = Callable[..., LedgerRow]


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    with running_postgres() as server:
        yield server


def wait_until(condition: Callable[[], bool], *, timeout_s: float = 60) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, "the condition did not come true in time"
        time.sleep(0.01)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGQUIT], ids=["stopped", "crashed"])
def test_rows_wait_for_a_server_that_is_restarted_and_none_is_lost_or_counted_twice(
    server: PostgresServer, make_row: RowMaker, number: signal.Signals
) -> None:
    engine = open_database(server.create_database())
    writer = Ledger(engine, flush_s=0.01, retry_s=0.02, retry_max_s=0.1)
    for _ in range(50):
        writer.record(make_row())
    assert writer.flush(timeout_s=60)
    server.stop(number=number)
    try:
        for _ in range(50):
            writer.record(make_row())
        wait_until(lambda: writer.status.degraded)
        assert "pending" not in str(writer.last_error)
    finally:
        server.start()
    assert writer.flush(timeout_s=60)
    assert not writer.status.degraded
    writer.close()
    assert writer.dropped == 0
    with engine.connect() as connection:
        assert connection.scalar(sa.select(sa.func.count()).select_from(ledger)) == 100
        assert summaries(connection, by=GROUPS) == rescan(connection, by=GROUPS)
    engine.dispose()


def test_a_writer_that_hangs_in_its_transaction_delays_the_others_rows_only(
    server: PostgresServer, make_row: RowMaker
) -> None:
    engine = open_database(server.create_database())
    writer = Ledger(engine, flush_s=0.01, retry_s=0.02, retry_max_s=0.1)
    with engine.connect() as hanging:
        hanging.exec_driver_sql("SET idle_in_transaction_session_timeout = '300ms'")
        hanging.commit()
        hanging.exec_driver_sql("LOCK TABLE ledger IN ACCESS EXCLUSIVE MODE")
        writer.record(make_row())
        # The server throws the other out; nobody else has to do anything.
        assert writer.flush(timeout_s=60)
        hanging.invalidate()
    writer.close()
    assert writer.status.written == 1
    engine.dispose()
