"""What is left in the file after the process was killed in the middle of writing."""

import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

FLUSH_S = 0.2

# Records one row after the other, numbered and time-stamped, and prints what the ledger promised.
WRITER = f"""
import sys, time
from datetime import datetime, UTC
import sqlalchemy as sa
from cache import Ledger, LedgerRow, RequestStatus, metadata

engine = sa.create_engine(f"sqlite:///{{sys.argv[1]}}")
with engine.begin() as connection:
    connection.exec_driver_sql("PRAGMA journal_mode=WAL")
    metadata.create_all(connection)
ledger = Ledger(engine, flush_s={FLUSH_S}, max_batch=1000)
for i in range(10**6):
    ledger.record(LedgerRow(request_id=str(i), at=datetime.now(UTC), tenant="t",
                            template="chat@1", status=RequestStatus.OK, prompt_tokens=1))
    if sys.argv[2] == "flush" and i % 50 == 49:
        assert ledger.flush()
        print(i + 1, flush=True)
    elif sys.argv[2] == "time" and i % 20 == 19:
        print(i + 1, time.monotonic(), flush=True)
        time.sleep(0.01)
"""


@contextmanager
def writing(file: Path, mode: str) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-c", WRITER, str(file), mode]
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
    assert process.wait(timeout=30) == -signal.SIGKILL
    return [line.split() for line in lines if line.endswith("\n")]


def intact_rows(file: Path) -> int:
    """Number of rows, which must be the first ones without a gap, in an undamaged file."""
    with closing(sqlite3.connect(file)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        count, last = connection.execute(
            "SELECT count(*), max(CAST(request_id AS INTEGER)) FROM ledger"
        ).fetchone()
    assert count == 0 or last == count - 1
    return int(count)


@pytest.mark.parametrize("num_lines", [1, 12])
def test_every_flushed_row_survives_sigkill(tmp_path: Path, num_lines: int) -> None:
    file = tmp_path / "ledger.db"
    with writing(file, "flush") as process:
        flushed = int(killed_after(process, num_lines)[-1][0])
    assert flushed >= 50 * num_lines
    assert intact_rows(file) >= flushed


def test_sigkill_loses_no_row_older_than_flush_s_and_one_write(tmp_path: Path) -> None:
    file = tmp_path / "ledger.db"
    with writing(file, "time") as process:
        recorded = killed_after(process, 100)
    last_s = float(recorded[-1][1])
    write_s = 0.5  # one batch, generously: the machine may be busy
    older = [int(count) for count, at_s in recorded if float(at_s) < last_s - FLUSH_S - write_s]
    assert older
    assert intact_rows(file) >= max(older)
