"""The ledger's table: one row a request, for SQLite and PostgreSQL alike.

Only the shape is defined here. Who creates it (migrations), and which database it lies in, is
decided outside of this package. Every index and constraint has a fixed name, so that a migration
can name it on either database.
"""

from datetime import UTC, datetime

import sqlalchemy as sa
from sqlalchemy.engine import Dialect
from sqlalchemy.types import TypeDecorator


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
        if value.tzinfo is None:
            raise ValueError(f"{value.isoformat()} has no time zone: pass an aware datetime")
        in_utc = value.astimezone(UTC)
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
    sa.CheckConstraint("status IN ('ok', 'error', 'aborted')", name="status"),
    sa.Index("ix_ledger_at", "at"),
    sa.Index("ix_ledger_template_at", "template", "at"),
)
