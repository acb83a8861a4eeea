"""One ledger row, and how rows enter the table."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from enum import StrEnum

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite

from cache.tables import ledger


class RequestStatus(StrEnum):
    """How a request ended. `ABORTED` is the client's doing, `ERROR` ours or the engine's."""

    OK = "ok"
    ERROR = "error"
    ABORTED = "aborted"


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerRow:
    """One request. Figures that are not known are `None`, never 0.

    `at` is the (aware) time when the request *ended*: the engine's own counters move then too, so
    that the two can be compared over one window.
    """

    request_id: str
    at: datetime
    tenant: str
    template: str
    status: RequestStatus
    collection: str | None = None
    mode: str | None = None
    replica: str | None = None
    prompt_tokens: int | None = None
    ideal_tokens: int | None = None
    cached_tokens: int | None = None
    cached_gpu: int | None = None
    cached_ram: int | None = None
    cached_ssd: int | None = None
    cached_redis: int | None = None
    cached_storage: int | None = None
    completion_tokens: int | None = None
    ttft_s: float | None = None
    e2e_s: float | None = None
    verdict: str | None = None
    divergence: Mapping[str, object] | None = None
    error_code: str | None = None


def insert_rows(connection: sa.Connection, rows: Sequence[LedgerRow]) -> None:
    """Insert rows; one whose `request_id` is already there is left as it is.

    Raises:
        sqlalchemy.exc.SQLAlchemyError: the database refused; nothing of this call is kept once the
            caller's transaction rolls back.
    """
    if connection.dialect.name == "postgresql":
        statement: sa.Insert = postgresql.insert(ledger).on_conflict_do_nothing()
    else:
        statement = sqlite.insert(ledger).on_conflict_do_nothing()
    connection.execute(statement, [_values(row) for row in rows])


# Raised bare where a value meets the driver: text or numbers that it has no place for.
UNSTORABLE = (OverflowError, TypeError, ValueError)


def is_row_at_fault(failure: Exception) -> bool:
    """Whether a row, not the database, is to blame: trying it again would never help."""
    if isinstance(failure, sa.exc.DBAPIError):
        return isinstance(failure, sa.exc.DataError | sa.exc.IntegrityError)
    return isinstance(failure, (sa.exc.StatementError, *UNSTORABLE))


def _values(row: LedgerRow) -> dict[str, object]:
    return {name: getattr(row, name) for name in _COLUMNS}


_COLUMNS = tuple(field.name for field in fields(LedgerRow))
