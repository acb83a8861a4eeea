"""Verdicts in the ledger's rows, and their roll-ups by hour and day."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

TOKENS = (
    *("prompt", "completion", "ideal", "predicted", "cached"),
    *("gpu", "ram", "ssd", "redis", "storage", "new"),
)
REASONS = ("changed", "evicted", "moved", "isolated", "rounding", "engine", "unknown")
FIGURES = (
    "requests",
    *(f"{name}_tokens" for name in TOKENS),
    *(f"{name}_known" for name in TOKENS),
    *("hit_requests", "hit_cached", "hit_prompt"),
    *(f"accounted_{name}" for name in ("requests", "prompt", "ideal", "cached", "new")),
    *(f"foretold_{name}" for name in ("requests", "predicted", "cached")),
    "lost_requests",
    *("errors", "aborted"),
    "foretold_exact",
    *(f"verdict_{name}" for name in ("hit", "cold", *REASONS)),
    *(f"lost_{name}" for name in REASONS),
)
TIMES = ("ttft_hits", "ttft_misses", "ttft_unknown", "e2e")


def row_columns() -> tuple[sa.Column[object], ...]:
    return (
        sa.Column("predicted_tokens", sa.Integer(), nullable=True),
        sa.Column("new_tokens", sa.Integer(), nullable=True),
        sa.Column("lost", sa.JSON(none_as_null=True), nullable=True),
        sa.Column("cause", sa.String(length=64), nullable=True),
        sa.Column("scaffold", sa.String(length=64), nullable=True),
        sa.Column("prompt_digest", sa.String(length=64), nullable=True),
        sa.Column("prompt_text", sa.Text(), nullable=True),
        sa.Column("route_reason", sa.String(length=256), nullable=True),
        sa.Column("series", sa.Integer(), nullable=True),
    )


def upgrade() -> None:
    for column in row_columns():
        op.add_column("ledger", column)
    op.create_table(
        "ledger_series",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("digest", sa.String(length=32), nullable=False),
        sa.Column("grouping", sa.Integer(), nullable=False),
        sa.Column("template", sa.String(length=128), nullable=True),
        sa.Column("tenant", sa.String(length=128), nullable=True),
        sa.Column("collection", sa.String(length=256), nullable=True),
        sa.Column("mode", sa.String(length=16), nullable=True),
        sa.Column("replica", sa.String(length=256), nullable=True),
        sa.Column("status", sa.String(length=16), nullable=True),
        sa.Column("error_code", sa.String(length=64), nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_ledger_series"),
        sa.UniqueConstraint("digest", name="uq_ledger_series_digest"),
    )
    for table in ("ledger_hours", "ledger_days"):
        op.create_table(
            table,
            sa.Column("grouping", sa.Integer(), autoincrement=False, nullable=False),
            sa.Column("start", sa.BigInteger(), autoincrement=False, nullable=False),
            sa.Column("series", sa.Integer(), autoincrement=False, nullable=False),
            *(sa.Column(figure, sa.BigInteger(), nullable=False) for figure in FIGURES),
            *(sa.Column(times, sa.LargeBinary(), nullable=True) for times in TIMES),
            sa.PrimaryKeyConstraint("grouping", "start", "series", name=f"pk_{table}"),
        )


def downgrade() -> None:
    for table in ("ledger_days", "ledger_hours", "ledger_series"):
        op.drop_table(table)
    for column in reversed(row_columns()):
        op.drop_column("ledger", column.name)
