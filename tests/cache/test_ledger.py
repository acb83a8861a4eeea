import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import fields
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path

import pytest
import sqlalchemy as sa
from hypothesis import given, settings
from hypothesis import strategies as st

from cache.errors import LedgerRowError, LedgerUnavailableError
from cache.ledger import Ledger
from cache.rows import LedgerRow, RequestStatus
from cache.tables import ledger as table
from cache.writers import be_the_only_writer

EngineMaker = Callable[..., sa.Engine]
RowMaker = Callable[..., LedgerRow]
NAMES = [field.name for field in fields(LedgerRow)]


@contextmanager
def open_ledger(engine: sa.Engine, **options: float) -> Iterator[Ledger]:
    ledger = Ledger(engine, **{"flush_s": 0.02, "retry_s": 0.01, "retry_max_s": 0.05, **options})
    try:
        yield ledger
    finally:
        ledger.close(timeout_s=2)


def stored(engine: sa.Engine) -> list[sa.RowMapping]:
    with engine.connect() as connection:
        return list(connection.execute(sa.select(table)).mappings())


def wait_until(condition: Callable[[], bool], *, timeout_s: float = 60) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, "the condition did not come true in time"
        time.sleep(0.005)


def test_a_row_comes_back_as_it_was_recorded(database: sa.Engine, make_row: RowMaker) -> None:
    row = make_row(
        collection="handbook",
        mode="rag",
        replica="http://127.0.0.1:30000",
        prompt_tokens=1779,
        cached_tokens=0,
        cached_gpu=0,
        ttft_s=0.25,
        divergence={"segment": "documents", "token": 12},
        lost={"evicted": 64},
        cause="cleared",
        predicted_tokens=64,
        new_tokens=1715,
        scaffold="f" * 32,
        prompt_digest="d" * 32,
        route_reason="the only replica",
        error_code="engine_timeout",
        status=RequestStatus.ERROR,
    )
    with open_ledger(database) as ledger:
        ledger.record(row)
        assert ledger.flush(timeout_s=60)
    (back,) = stored(database)
    assert {name: back[name] for name in NAMES} == {name: getattr(row, name) for name in NAMES}
    assert back["cached_tokens"] == 0
    assert back["cached_ram"] is None


def test_flush_waits_for_every_row_recorded_before_it(
    database: sa.Engine, make_row: RowMaker
) -> None:
    with open_ledger(database, flush_s=3600, max_batch=100) as ledger:
        for _ in range(250):
            ledger.record(make_row())
        assert ledger.flush(timeout_s=60)
        assert len(stored(database)) == 250
        assert ledger.status.written == 250
        assert ledger.status.pending == 0


def test_rows_are_written_within_flush_s_without_being_asked(
    database: sa.Engine, make_row: RowMaker
) -> None:
    with open_ledger(database, flush_s=0.05) as ledger:
        ledger.record(make_row())
        wait_until(lambda: len(stored(database)) == 1)
        assert ledger.dropped == 0


def test_close_writes_what_waits_and_later_rows_are_counted_as_dropped(
    database: sa.Engine, make_row: RowMaker
) -> None:
    ledger = Ledger(database, flush_s=60)
    ledger.record(make_row())
    ledger.close()
    ledger.record(make_row())
    assert len(stored(database)) == 1
    assert ledger.dropped == 1


def test_a_request_that_is_recorded_twice_counts_once(
    database: sa.Engine, make_row: RowMaker
) -> None:
    with open_ledger(database) as ledger:
        for tokens in (1, 2):
            ledger.record(make_row(request_id="same", prompt_tokens=tokens))
            assert ledger.flush(timeout_s=60)
    assert [row["prompt_tokens"] for row in stored(database)] == [1]


def test_a_locked_database_delays_rows_and_never_record(
    database: sa.Engine, make_row: RowMaker
) -> None:
    with open_ledger(database) as ledger:
        with database.connect() as other:
            be_the_only_writer(other)
            start = time.monotonic()
            for _ in range(100):
                ledger.record(make_row())
            assert time.monotonic() - start < 30
            wait_until(lambda: ledger.status.degraded)
            assert isinstance(ledger.last_error, LedgerUnavailableError)
            assert "lock" in str(ledger.last_error)
            assert not ledger.flush(timeout_s=0.1)
        assert ledger.flush(timeout_s=60)
        assert len(stored(database)) == 100
        assert not ledger.status.degraded
        assert ledger.dropped == 0


def test_a_full_queue_drops_and_counts_the_newest_rows(
    database: sa.Engine, make_row: RowMaker
) -> None:
    with open_ledger(database, max_batch=10, capacity=10) as ledger:
        with database.connect() as other:
            be_the_only_writer(other)
            for _ in range(25):
                ledger.record(make_row())
            assert ledger.dropped == 15
        assert ledger.flush(timeout_s=60)
        assert len(stored(database)) == 10


def test_a_full_disk_degrades_and_recovers(open_file: EngineMaker, make_row: RowMaker) -> None:
    engine = open_file()
    limit = {"pages": 24}

    def limit_pages(connection: object, _record: object) -> None:
        connection.execute(f"PRAGMA max_page_count={limit['pages']}")  # type: ignore[attr-defined]

    sa.event.listen(engine, "checkout", lambda dbapi, record, _proxy: limit_pages(dbapi, record))
    with open_ledger(engine, max_batch=20) as ledger:
        for _ in range(400):
            ledger.record(make_row(collection="x" * 200))
        wait_until(lambda: ledger.status.degraded)
        assert "full" in str(ledger.last_error)
        limit["pages"] = 100_000
        assert ledger.flush(timeout_s=60)
        assert ledger.dropped == 0
    assert len(stored(engine)) == 400


def test_a_read_only_database_degrades_and_close_counts_the_loss(
    open_file: EngineMaker, make_row: RowMaker, tmp_path: Path
) -> None:
    open_file(tmp_path / "ledger.db")
    engine = sa.create_engine(f"sqlite:///file:{tmp_path}/ledger.db?mode=ro&uri=true")
    ledger = Ledger(engine, flush_s=0.01, retry_s=0.01)
    ledger.record(make_row())
    wait_until(lambda: ledger.status.degraded)
    assert "readonly" in str(ledger.last_error)
    ledger.close(timeout_s=0.2)
    assert ledger.status.pending == 0
    assert ledger.dropped == 1
    engine.dispose()


def test_a_database_without_the_table_waits_for_it(
    open_database: EngineMaker, make_row: RowMaker
) -> None:
    engine = open_database(create=False)
    with open_ledger(engine) as ledger:
        ledger.record(make_row())
        wait_until(lambda: ledger.status.degraded)
        wait_until(lambda: _is_made(engine))
        assert ledger.flush(timeout_s=60)
    assert len(stored(engine)) == 1


def _is_made(engine: sa.Engine) -> bool:
    """The ledger, which tries again and again, may hold the lock."""
    try:
        table.metadata.create_all(engine)
    except sa.exc.OperationalError:
        return False
    return True


@pytest.mark.parametrize(
    "poison",
    [
        {"prompt_tokens": 2**70},
        {"collection": "\ud800"},
        {"at": datetime(2026, 1, 1)},
        {"status": "vanished"},
        {"divergence": {"token": object()}},
    ],
)
def test_a_row_that_cant_be_stored_is_dropped_alone(
    database: sa.Engine, make_row: RowMaker, poison: dict[str, object]
) -> None:
    with open_ledger(database, flush_s=3600) as ledger:
        ledger.record(make_row())
        ledger.record(make_row(request_id="bad", **poison))
        ledger.record(make_row())
        assert ledger.flush(timeout_s=60)
        assert ledger.dropped == 1
        assert isinstance(ledger.last_error, LedgerRowError)
        assert ledger.last_error.request_id == "bad"
        assert not ledger.status.degraded
    assert len(stored(database)) == 2


def test_an_error_never_repeats_the_rows_values(database: sa.Engine, make_row: RowMaker) -> None:
    with open_ledger(database) as ledger:
        ledger.record(make_row(collection="secret name", status="vanished"))
        assert ledger.flush(timeout_s=60)
        assert "secret name" not in str(ledger.last_error)


@settings(max_examples=15, deadline=None)
@given(
    st.lists(st.lists(st.integers(0, 10**6), max_size=30), min_size=1, max_size=4),
    st.integers(1, 20),
)
def test_any_interleaving_of_recorders_sums_right(
    open_database: EngineMaker, figures: list[list[int]], max_batch: int
) -> None:
    engine = open_database()
    now = datetime(2026, 1, 1, tzinfo=UTC)

    def work(writer: int, tokens: list[int], ledger: Ledger) -> None:
        for i, figure in enumerate(tokens):
            ledger.record(
                LedgerRow(
                    request_id=f"{writer}-{i}",
                    at=now,
                    tenant="t",
                    template="chat@1",
                    status=RequestStatus.OK,
                    prompt_tokens=figure,
                )
            )
            if i % 7 == 6:
                assert ledger.flush(timeout_s=60)

    with open_ledger(engine, max_batch=max_batch, flush_s=0) as ledger:
        threads = [
            threading.Thread(target=work, args=(writer, tokens, ledger))
            for writer, tokens in enumerate(figures)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert ledger.flush(timeout_s=60)
        assert ledger.dropped == 0
    assert sorted(row["prompt_tokens"] for row in stored(engine)) == sorted(chain(*figures))


def test_two_ledgers_on_one_database_lose_nothing(
    open_database: EngineMaker, make_row: RowMaker
) -> None:
    first = open_database()
    engines = [first, open_database(first)]
    with open_ledger(engines[0]) as one, open_ledger(engines[1]) as other:
        for _ in range(200):
            one.record(make_row())
            other.record(make_row())
        assert one.flush(timeout_s=60)
        assert other.flush(timeout_s=60)
    assert len(stored(engines[0])) == 400


@pytest.mark.parametrize(
    "options",
    [{"max_batch": 0}, {"max_batch": 5, "capacity": 4}, {"flush_s": -1}, {"retry_max_s": 0.01}],
)
def test_options_that_make_no_sense_are_refused(
    database: sa.Engine, options: dict[str, float]
) -> None:
    with pytest.raises(ValueError, match=r"must be|or more"):
        Ledger(database, **options)
