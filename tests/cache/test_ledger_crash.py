"""What is left in the database after a process was killed in the middle of writing."""

import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise

import pytest
import sqlalchemy as sa

from cache.summary import GROUPS, rescan, summaries
from cache.tables import ledger, ledger_days, ledger_hours

pytestmark = pytest.mark.slow

EngineMaker = Callable[..., sa.Engine]

FLUSH_S = 0.2

# Records one row after the other, numbered and time-stamped, and prints what the ledger promised.
WRITER = f"""
import sys, time
from datetime import datetime, UTC
from app.database import open_database
from cache import Ledger, LedgerRow, RequestStatus

ledger = Ledger(open_database(sys.argv[1]), flush_s={FLUSH_S}, max_batch=1000)
for i in range(int(sys.argv[3])):
    ledger.record(LedgerRow(request_id=str(i), at=datetime.now(UTC), tenant=f"t{{i % 5}}",
                            template="chat@1", status=RequestStatus.OK, prompt_tokens=1,
                            cached_tokens=i % 7, ttft_s=i / 1000))
    if sys.argv[2] == "flush" and i % 50 == 49:
        assert ledger.flush(timeout_s=60)
        print(i + 1, flush=True)
    elif sys.argv[2] == "time" and i % 20 == 19:
        print(i + 1, time.monotonic(), ledger.status.written, flush=True)
        time.sleep(0.01)
"""


@pytest.fixture
def empty(open_database: EngineMaker) -> sa.Engine:
    """A database without tables: the writer makes them, as the gateway does."""
    return open_database(create=False)


@contextmanager
def writing(
    database: sa.Engine, mode: str, *, rows: int = 10**6
) -> Iterator[subprocess.Popen[str]]:
    url = database.url.render_as_string(hide_password=False)
    command = [sys.executable, "-c", WRITER, url, mode, str(rows)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def killed_after(process: subprocess.Popen[str], num_lines: int) -> list[list[str]]:
    """The lines that the writer printed before SIGKILL reached it."""
    assert process.stdout is not None
    lines = [process.stdout.readline() for _ in range(num_lines)]
    process.send_signal(signal.SIGKILL)
    lines += process.stdout.readlines()
    assert process.wait(timeout=120) == -signal.SIGKILL
    return [line.split() for line in lines if line.endswith("\n")]


def intact_rows(database: sa.Engine) -> int:
    """Number of rows, which must be the first ones without a gap and all be in the roll-ups."""
    with database.connect() as connection:
        if database.dialect.name == "sqlite":
            assert connection.exec_driver_sql("PRAGMA integrity_check").scalar() == "ok"
        number = sa.cast(ledger.c.request_id, sa.Integer)
        rows, last = connection.execute(sa.select(sa.func.count(), sa.func.max(number))).one()
        for table in (ledger_hours, ledger_days):
            assert (
                connection.scalar(
                    sa.select(sa.func.sum(table.c.requests)).where(table.c.grouping == 0)
                )
                == rows
            )
        assert summaries(connection, by=GROUPS) == rescan(connection, by=GROUPS)
    assert rows == 0 or last == rows - 1
    return int(rows)


@pytest.mark.parametrize("num_lines", [1, 12])
def test_every_flushed_row_survives_sigkill(empty: sa.Engine, num_lines: int) -> None:
    with writing(empty, "flush") as process:
        flushed = int(killed_after(process, num_lines)[-1][0])
    assert flushed >= 50 * num_lines
    assert intact_rows(empty) >= flushed


def test_sigkill_loses_no_row_older_than_flush_s_and_one_write(empty: sa.Engine) -> None:
    with writing(empty, "time") as process:
        recorded = killed_after(process, 100)
    last_s = float(recorded[-1][1])
    # What is lost was recorded while the batch before the lost one was written, or later.
    write_s = longest_wait_s([(float(at_s), int(written)) for _, at_s, written in recorded])
    older = [
        int(count) for count, at_s, _ in recorded if float(at_s) < last_s - FLUSH_S - 2 * write_s
    ]
    assert intact_rows(empty) >= max(older, default=0)


def longest_wait_s(written: list[tuple[float, int]]) -> float:
    """The longest time without a commit, which is longer than any write took; 0.5 s at least."""
    commits = [written[0][0]]
    commits += [at_s for (_, before), (at_s, after) in pairwise(written) if after > before]
    return max(0.5, *(later - one for one, later in pairwise([*commits, written[-1][0]])))


def test_two_processes_of_which_one_is_killed_count_each_request_once(empty: sa.Engine) -> None:
    """Both record the same requests, so that whoever is second finds them there already."""
    with writing(empty, "flush", rows=600) as survivor, writing(empty, "flush") as victim:
        killed_after(victim, 6)
        assert survivor.wait(timeout=120) == 0
    assert intact_rows(empty) >= 600
