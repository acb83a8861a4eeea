"""What one report holds, and how it is gathered from the ledger's database.

Its forms are made elsewhere: `cache.report_text` for people, `cache.report_json` for programs.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

import sqlalchemy as sa

from cache.crosscheck import CrossCheck, cross_check
from cache.engine_metrics import EngineDelta
from cache.ledger import LedgerStatus
from cache.summary import Summary, summaries


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """Everything that one report shows; `total` is None where no request is in its window."""

    made_at: datetime
    since: datetime | None
    until: datetime | None
    by: tuple[str, ...]
    summaries: tuple[Summary, ...]
    total: Summary | None
    cross_check: CrossCheck | None = None
    ledger: LedgerStatus | None = None


def load_report(
    connection: sa.Connection,
    *,
    now: datetime,
    since: datetime | None = None,
    until: datetime | None = None,
    by: Sequence[str] = ("template",),
    counted: EngineDelta | None = None,
    ledger: LedgerStatus | None = None,
) -> Report:
    """The report over one window of the ledger, all of it as of one moment.

    On PostgreSQL that takes a connection at REPEATABLE READ; on SQLite it is seen to here.

    Args:
        now: time that the report says it was made.
        since, until: requests that ended in `since` <= end < `until`; None is without a bound.
        by: columns to group by, among `cache.summary.GROUPS`.
        counted: what the engine counted, for the cross-check; it brings its own window.
        ledger: the writer's state, so that the report can say what is missing from it.

    Raises:
        ReportGroupError: a column that isn't a group.
    """
    _begin_sqlite(connection)
    everything = summaries(connection, since=since, until=until, by=())
    return Report(
        made_at=now,
        since=since,
        until=until,
        by=tuple(by),
        summaries=tuple(summaries(connection, since=since, until=until, by=by)),
        total=everything[0] if everything else None,
        cross_check=None if counted is None else cross_check(connection, counted),
        ledger=ledger,
    )


def _begin_sqlite(connection: sa.Connection) -> None:
    """Open the transaction that Python's driver leaves out before a SELECT."""
    driver = connection.connection.dbapi_connection
    if connection.dialect.name == "sqlite" and driver and not driver.in_transaction:
        connection.exec_driver_sql("BEGIN")
