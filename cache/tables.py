"""The ledger's tables: one row a request, and their roll-ups, for SQLite and PostgreSQL alike.

Only the shape is defined here. Who creates it (migrations), and which database it lies in, is
decided outside of this package. Every index and constraint has a fixed name, so that a migration
can name it on either database.
"""

from datetime import UTC, datetime

import sqlalchemy as sa
from sqlalchemy.engine import Dialect
from sqlalchemy.types import TypeDecorator

from cache.figures import FIGURES, TIMES


def as_utc(moment: datetime) -> datetime:
    """The same instant in UTC.

    Raises:
        ValueError: a naive datetime, which would be an instant only by guessing.
    """
    if moment.tzinfo is None:
        raise ValueError(f"{moment.isoformat()} has no time zone: pass an aware datetime")
    return moment.astimezone(UTC)


class UtcDateTime(TypeDecorator[datetime]):
    """An instant: aware in Python, `timestamptz` in PostgreSQL, UTC without a zone in SQLite.

    Raises:
        ValueError: a naive datetime, which would be an instant only by guessing.
    """

    impl = sa.DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        if value is None:
            return None
        in_utc = as_utc(value)
        return in_utc.replace(tzinfo=None) if dialect.name == "sqlite" else in_utc

    def process_result_value(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        if value is None:
            return None
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)


metadata = sa.MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
    }
)

# `NULL` is "not known" in every nullable column, and never stands for zero.
ledger = sa.Table(
    "ledger",
    metadata,
    sa.Column("request_id", sa.String(128), primary_key=True),
    sa.Column("at", UtcDateTime(), nullable=False),
    sa.Column("tenant", sa.String(128), nullable=False),
    sa.Column("template", sa.String(128), nullable=False),
    sa.Column("collection", sa.String(256)),
    sa.Column("mode", sa.String(16)),
    sa.Column("replica", sa.String(256)),
    sa.Column("prompt_tokens", sa.Integer),
    sa.Column("ideal_tokens", sa.Integer),
    sa.Column("cached_tokens", sa.Integer),
    sa.Column("cached_gpu", sa.Integer),
    sa.Column("cached_ram", sa.Integer),
    sa.Column("cached_ssd", sa.Integer),
    sa.Column("cached_redis", sa.Integer),
    sa.Column("cached_storage", sa.Integer),
    sa.Column("completion_tokens", sa.Integer),
    sa.Column("ttft_s", sa.Double),
    sa.Column("e2e_s", sa.Double),
    sa.Column("verdict", sa.String(32)),
    sa.Column("divergence", sa.JSON(none_as_null=True)),
    sa.Column("status", sa.String(16), nullable=False),
    sa.Column("error_code", sa.String(64)),
    sa.Column("predicted_tokens", sa.Integer),
    sa.Column("new_tokens", sa.Integer),
    sa.Column("lost", sa.JSON(none_as_null=True)),
    sa.Column("cause", sa.String(64)),
    sa.Column("scaffold", sa.String(64)),
    sa.Column("prompt_digest", sa.String(64)),
    sa.Column("prompt_text", sa.Text),
    sa.Column("route_reason", sa.String(256)),
    sa.Column("mode_reason", sa.String(512)),
    sa.Column("predicted_ttft_s", sa.Double),
    sa.Column("notes", sa.String(512)),
    # The series that the row is counted in; it isn't the row's own, but the roll-ups'.
    sa.Column("series", sa.Integer),
    sa.CheckConstraint("status IN ('ok', 'error', 'aborted')", name="status"),
    sa.Index("ix_ledger_at", "at"),
    sa.Index("ix_ledger_template_at", "template", "at"),
)

# How roll-ups are grouped: by nothing, by one label, by all of them together. A report by one label
# reads few sums however many combinations there are. The place in this tuple is stored.
LABELS = ("template", "tenant", "collection", "mode", "replica", "status", "error_code")
GROUPINGS = ("nothing", *LABELS, "all")

# A value of what is grouped by, in bounded number: beyond the caps of `cache.labels`, `other`. The
# labels that aren't grouped by are NULL.
ledger_series = sa.Table(
    "ledger_series",
    metadata,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("digest", sa.String(32), nullable=False, unique=True),
    sa.Column("grouping", sa.Integer, nullable=False),
    sa.Column("template", sa.String(128)),
    sa.Column("tenant", sa.String(128)),
    sa.Column("collection", sa.String(256)),
    sa.Column("mode", sa.String(16)),
    sa.Column("replica", sa.String(256)),
    sa.Column("status", sa.String(16)),
    sa.Column("error_code", sa.String(64)),
)


def _rollup(name: str) -> sa.Table:
    """Sums of one series over one stretch of time: `start` in seconds since 1970, UTC."""
    return sa.Table(
        name,
        metadata,
        sa.Column("grouping", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("start", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("series", sa.Integer, primary_key=True, autoincrement=False),
        *(sa.Column(figure, sa.BigInteger, nullable=False) for figure in FIGURES),
        *(sa.Column(times, sa.LargeBinary) for times in TIMES),
    )


ledger_hours = _rollup("ledger_hours")
ledger_days = _rollup("ledger_days")
