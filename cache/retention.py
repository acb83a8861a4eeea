"""How long rows and roll-ups are kept, and how the old ones go: a few at a time, oldest first.

Space in a SQLite file is used again for new rows; the file doesn't shrink.
"""

import time
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import sqlalchemy as sa

from cache.steady_clock import SteadyClock
from cache.sums import requests_in
from cache.tables import GROUPINGS, ledger, ledger_days, ledger_hours, ledger_series
from cache.windows import Grain, floor
from cache.writers import be_the_only_writer

_AT_ONCE = 1_000  # rows in one transaction: tens of milliseconds
_PAUSE_S = 0.02  # between two of these, so that other writers get in


@dataclass(frozen=True, slots=True, kw_only=True)
class Retention:
    """Each is kept no shorter than what is finer, so that sums can always be told.

    Args:
        rows_days: how long rows are kept.
        hourly_days: how long roll-ups by hour are kept.
        daily_days: how long roll-ups by day are kept.
        max_rows: beyond so many rows the oldest go before their time; None is without a bound.

    Raises:
        ValueError: periods that aren't above 0 and in this order, or `max_rows` below 1.
    """

    rows_days: float = 30
    hourly_days: float = 92
    daily_days: float = 731
    max_rows: int | None = 10_000_000

    def __post_init__(self) -> None:
        if not 0 < self.rows_days <= self.hourly_days <= self.daily_days:
            raise ValueError(
                "rows_days must be above 0, hourly_days no less, and daily_days no less than that"
            )
        if self.max_rows is not None and self.max_rows < 1:
            raise ValueError("max_rows must be 1 or more")


class Purger:
    """Deletes what is too old whenever it is due. For one thread.

    A failure changes nothing and is told by `error`; it is tried again when it is next due. While
    the time of day isn't to be believed, nothing is too old.
    """

    def __init__(
        self,
        engine: sa.Engine,
        retention: Retention | None,
        *,
        every_s: float,
        clock: SteadyClock | None = None,
    ) -> None:
        self._engine = engine
        self._retention = retention
        self._every_s = every_s
        self._clock = clock or SteadyClock()
        self._due_s = time.monotonic() + every_s
        self.purged = 0
        self.error: str | None = None

    def due_in_s(self) -> float | None:
        """Seconds until `run_if_due` has something to do; None: never."""
        return None if self._retention is None else max(0.0, self._due_s - time.monotonic())

    def run_if_due(self) -> None:
        """Delete one small batch, if it is time."""
        if self._retention is None or time.monotonic() < self._due_s:
            return
        deleted = 0
        if not self._clock.is_steady():
            self._due_s = time.monotonic() + self._every_s
            return
        now = datetime.fromtimestamp(self._clock.now(), UTC)
        try:
            with self._engine.begin() as connection:
                deleted = purge_some(connection, self._retention, now=now)
            self.error = None
        except sa.exc.SQLAlchemyError as failure:
            self.error = type(failure).__name__
        self.purged += deleted
        self._due_s = time.monotonic() + (_PAUSE_S if deleted else self._every_s)


def purge_some(
    connection: sa.Connection, retention: Retention, *, now: datetime, at_once: int = _AT_ONCE
) -> int:
    """Delete some of what is too old; returns how many rows and roll-ups, 0 when none is left.

    Raises:
        sqlalchemy.exc.SQLAlchemyError: the database refused; nothing is kept of this once the
            caller's transaction rolls back.
    """
    be_the_only_writer(connection)
    rows_until = floor(now - timedelta(days=retention.rows_days), Grain.HOURS)
    deleted = _delete_rows(connection, at_once, ledger.c.at < rows_until)
    if not deleted and retention.max_rows is not None:
        surplus = _kept_rows(connection) - retention.max_rows
        deleted = _delete_rows(connection, min(at_once, surplus)) if surplus > 0 else 0
    if not deleted:
        until = floor(now - timedelta(days=retention.hourly_days), Grain.DAYS)
        deleted = _delete_oldest(connection, ledger_hours, until)
    if not deleted:
        until = floor(now - timedelta(days=retention.daily_days), Grain.DAYS)
        deleted = _delete_oldest(connection, ledger_days, until)
        if deleted:
            _delete_unused_series(connection)
    return deleted


def _delete_rows(connection: sa.Connection, at_most: int, *where: sa.ColumnElement[bool]) -> int:
    oldest = sa.select(ledger.c.request_id).where(*where).order_by(ledger.c.at).limit(at_most)
    return connection.execute(sa.delete(ledger).where(ledger.c.request_id.in_(oldest))).rowcount


def _kept_rows(connection: sa.Connection) -> int:
    """How many rows there are, told by the hours' roll-ups: counting rows would read them all.

    In the oldest hour that still has rows, those that are gone are counted too.
    """
    oldest = connection.scalar(sa.select(sa.func.min(ledger.c.at)))
    if oldest is None:
        return 0
    return requests_in(connection, Grain.HOURS, floor(oldest, Grain.HOURS), None)


def _delete_oldest(connection: sa.Connection, table: sa.Table, until: datetime) -> int:
    """Delete all roll-ups of the oldest start, if that lies before `until`."""
    first = sa.select(sa.func.min(table.c.start)).where(table.c.grouping == 0)
    oldest = connection.scalar(first)
    if oldest is None or oldest >= until.timestamp():
        return 0
    # All groupings, by name: they come first in the key.
    of_oldest = table.c.grouping.in_(range(len(GROUPINGS))), table.c.start == oldest
    return connection.execute(sa.delete(table).where(*of_oldest)).rowcount


def _delete_unused_series(connection: sa.Connection) -> None:
    """Give their places under the caps back. No row is in one: days outlive rows."""
    # NOT EXISTS, which a database turns into an anti-join; NOT IN compares each with each where the
    # used ones don't fit PostgreSQL's memory.
    used = sa.exists().where(ledger_days.c.series == ledger_series.c.id)
    connection.execute(sa.delete(ledger_series).where(~used))
