"""The ledger: a row for every request, written beside the request path, never on it.

`Ledger.record` puts a row into a bounded queue and returns; one thread writes the queue in batches,
rows and their roll-ups in one transaction, and deletes what has become too old in between. While
the database is locked, full, read-only or away, the rows wait and are tried again; when the queue
is full, further rows are dropped and counted. Nothing here fails or delays a request.
"""

import threading
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice

import sqlalchemy as sa

from cache.errors import CacheError, LedgerRowError, LedgerUnavailableError
from cache.labels import LabelCaps
from cache.retention import Purger, Retention
from cache.rows import UNSTORABLE, LedgerRow, insert_rows, is_row_at_fault

_DEFAULT_CAPS = LabelCaps()


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerStatus:
    """Counts since the ledger was opened, in rows."""

    pending: int
    written: int
    dropped: int
    last_error: CacheError | None
    purged: int = 0
    purge_error: str | None = None
    """Why old rows could not be deleted the last time that it was tried."""
    degraded: bool
    """Rows aren't being stored: the last attempt failed, or the writer thread has ended."""


class Ledger:
    """Writes rows in batches from one thread of its own.

    A crash of the process loses the rows recorded in the last `flush_s` seconds and the batch being
    written, no more, as long as the database takes writes (what a power cut takes besides is the
    database's own durability setting). A row that is written twice counts once: `request_id` is
    the key, and a batch whose commit was in doubt is written again.

    Args:
        engine: a database that already has the table; the writer thread takes its own connection.
        flush_s: longest time that a row waits for others before it is written, in seconds.
        max_batch: rows in one transaction; so many waiting rows are written without waiting.
        capacity: rows that may wait in memory, the batch being written included.
        retry_s: pause after a first failed write, doubled at each further one up to `retry_max_s`.
        caps: how many labels the roll-ups count by name.
        retention: what is deleted when it is old; None keeps everything.
        purge_every_s: pause between two looks for what is too old, in seconds.
    """

    def __init__(
        self,
        engine: sa.Engine,
        *,
        flush_s: float = 0.5,
        max_batch: int = 500,
        capacity: int = 20_000,
        retry_s: float = 0.1,
        retry_max_s: float = 5.0,
        caps: LabelCaps = _DEFAULT_CAPS,
        retention: Retention | None = None,
        purge_every_s: float = 60.0,
    ) -> None:
        if max_batch < 1 or capacity < max_batch:
            raise ValueError("max_batch must be 1 or more, and capacity no less than max_batch")
        if min(flush_s, retry_s) < 0 or retry_max_s < retry_s:
            raise ValueError("flush_s and retry_s must be 0 or more, retry_max_s at least retry_s")
        self._engine = engine
        self._flush_s = flush_s
        self._max_batch = max_batch
        self._capacity = capacity
        self._retry_s = retry_s
        self._retry_max_s = retry_max_s
        self._caps = caps
        self._purger = Purger(engine, retention, every_s=purge_every_s)
        # All below is guarded by `_state`, which nobody holds during input or output. Its lock by
        # itself is taken without a call in Python.
        self._lock = threading.RLock()
        self._state = threading.Condition(self._lock)
        self._rows: deque[LedgerRow] = deque()
        self._recorded = 0
        self._settled = 0  # rows that have left the queue: written or dropped, in order
        self._written = 0
        self._dropped = 0
        self._last_error: CacheError | None = None
        self._degraded = False
        self._flush_up_to = 0  # don't wait for company before this many rows are settled
        self._retry_now = False
        self._closing = False
        self._gave_up = False
        self._thread = threading.Thread(target=self._run, name="foreword-ledger", daemon=True)
        self._thread.start()

    def record(self, row: LedgerRow) -> None:
        """Queue a row: never waits for the database, never raises. A full queue drops the row."""
        with self._lock:
            rows = self._rows
            if self._closing or len(rows) >= self._capacity:
                self._dropped += 1
                return
            rows.append(row)
            self._recorded += 1
            if len(rows) == 1 or len(rows) == self._max_batch:
                self._state.notify_all()

    def flush(self, *, timeout_s: float = 10.0) -> bool:
        """Wait until every row recorded before this call is written. False when time ran out."""
        deadline = time.monotonic() + timeout_s
        with self._state:
            target = self._recorded
            self._flush_up_to = max(self._flush_up_to, target)
            self._retry_now = True
            self._state.notify_all()
            while self._settled < target:
                left = deadline - time.monotonic()
                if left <= 0 or not self._thread.is_alive():
                    return False
                self._state.wait(min(left, 1.0))
            return True

    def close(self, *, timeout_s: float = 10.0) -> None:
        """Write what waits and end the thread; rows still waiting after `timeout_s` are dropped."""
        with self._state:
            self._closing = True
        self.flush(timeout_s=timeout_s)
        with self._state:
            self._gave_up = True
            self._state.notify_all()
        self._thread.join(timeout=timeout_s)

    @property
    def dropped(self) -> int:
        """Rows lost: the queue was full, or the database could never store them."""
        with self._state:
            return self._dropped

    @property
    def last_error(self) -> CacheError | None:
        """Why the last failed write failed, also after a later one succeeded."""
        with self._state:
            return self._last_error

    @property
    def status(self) -> LedgerStatus:
        with self._state:
            return LedgerStatus(
                pending=len(self._rows),
                written=self._written,
                dropped=self._dropped,
                last_error=self._last_error,
                purged=self._purger.purged,
                purge_error=self._purger.error,
                degraded=self._degraded or not (self._thread.is_alive() or self._closing),
            )

    def _run(self) -> None:
        failures = 0
        while (batch := self._next_batch(failures)) is not None:
            failures = 0 if self._write(batch) else failures + 1
            if not failures:
                self._purger.run_if_due()
        with self._state:
            self._dropped += len(self._rows)
            self._settled += len(self._rows)
            self._rows.clear()
            self._state.notify_all()

    def _next_batch(self, failures: int) -> list[LedgerRow] | None:
        """The rows to write now, still at the head of the queue: none to purge, None at the end."""
        with self._state:
            if failures:
                pause_s = min(self._retry_s * 2 ** min(failures - 1, 30), self._retry_max_s)
                self._state.wait_for(lambda: self._retry_now or self._gave_up, timeout=pause_s)
            self._state.wait_for(
                lambda: self._rows or self._gave_up, timeout=self._purger.due_in_s()
            )
            if self._rows and not failures:
                self._state.wait_for(self._due, timeout=self._flush_s)
            self._retry_now = False
            if self._gave_up:
                return None
            return list(islice(self._rows, self._max_batch))

    def _due(self) -> bool:
        return (
            self._closing
            or self._gave_up
            or len(self._rows) >= self._max_batch
            or self._flush_up_to > self._settled
        )

    def _write(self, batch: Sequence[LedgerRow]) -> bool:
        """Write one batch; False when the database can't take it now."""
        if not batch:
            return True
        failure = self._insert(batch)
        if failure is None:
            self._settle(written=len(batch), dropped=0)
        elif not is_row_at_fault(failure):
            self._unavailable(failure)
            return False
        elif len(batch) == 1:
            self._drop(batch[0], failure)
        else:
            # Which row it is, the database doesn't say: each is tried alone.
            return all(self._write([row]) for row in batch)
        return True

    def _insert(self, batch: Sequence[LedgerRow]) -> Exception | None:
        try:
            with self._engine.begin() as connection:
                insert_rows(connection, batch, caps=self._caps)
        except (sa.exc.SQLAlchemyError, *UNSTORABLE) as exc:
            return exc
        return None

    def _drop(self, row: LedgerRow, failure: Exception) -> None:
        self._settle(written=0, dropped=1)
        with self._state:
            self._last_error = LedgerRowError(request_id=row.request_id, reason=_reason(failure))

    def _unavailable(self, failure: Exception) -> None:
        with self._state:
            self._last_error = LedgerUnavailableError(
                reason=_reason(failure), pending=len(self._rows)
            )
            self._degraded = True

    def _settle(self, *, written: int, dropped: int) -> None:
        with self._state:
            for _ in range(written + dropped):
                self._rows.popleft()
            self._written += written
            self._dropped += dropped
            self._settled += written + dropped
            self._degraded = False
            self._state.notify_all()


def _reason(failure: Exception) -> str:
    """One line without the statement and its values, which SQLAlchemy would put in."""
    cause = failure.orig if isinstance(failure, sa.exc.StatementError) else failure
    lines = str(cause).splitlines()
    return f"{type(cause).__name__}: {lines[0]}" if lines else type(cause).__name__
