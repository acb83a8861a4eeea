"""Batches of requests, and what is to be told of them to webhooks."""

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "batches",
        sa.Column("serial", sa.Integer(), nullable=False),
        sa.Column("id", sa.String(length=64), nullable=False),
        sa.Column("tenant", sa.String(length=128), nullable=False),
        sa.Column("endpoint", sa.String(length=64), nullable=False),
        sa.Column("input_file_id", sa.String(length=64), nullable=False),
        sa.Column("output_file_id", sa.String(length=64), nullable=True),
        sa.Column("error_file_id", sa.String(length=64), nullable=True),
        sa.Column("status", sa.String(length=16), nullable=False),
        sa.Column("problems", sa.JSON(), nullable=False),
        sa.Column("details", sa.JSON(), nullable=False),
        sa.Column("times", sa.JSON(), nullable=False),
        sa.Column("expires_at", sa.BigInteger(), nullable=False),
        sa.Column("total", sa.Integer(), nullable=False),
        sa.Column("completed", sa.Integer(), nullable=False),
        sa.Column("failed", sa.Integer(), nullable=False),
        sa.Column("owner", sa.String(length=64), nullable=True),
        sa.Column("owned_until", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("serial", name="pk_batches"),
    )
    op.create_index("ix_batches_id", "batches", ["id"], unique=True)
    op.create_index("ix_batches_tenant_serial", "batches", ["tenant", "serial"])
    op.create_index("ix_batches_status", "batches", ["status"])
    op.create_table(
        "batch_lines",
        sa.Column("batch_id", sa.String(length=64), nullable=False),
        sa.Column("number", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("place", sa.Integer(), nullable=False),
        sa.Column("leads", sa.Boolean(), nullable=False),
        sa.Column("custom_id", sa.Text(), nullable=False),
        sa.Column("body", sa.LargeBinary(), nullable=False),
        sa.Column("done", sa.Boolean(), nullable=False),
        sa.Column("succeeded", sa.Boolean(), nullable=True),
        sa.Column("result", sa.LargeBinary(), nullable=True),
        sa.PrimaryKeyConstraint("batch_id", "number", name="pk_batch_lines"),
    )
    op.create_index(
        "ix_batch_lines_batch_id_done_place", "batch_lines", ["batch_id", "done", "place"]
    )
    op.create_table(
        "webhook_deliveries",
        sa.Column("id", sa.String(length=64), nullable=False),
        sa.Column("endpoint", sa.String(length=64), nullable=False),
        sa.Column("body", sa.LargeBinary(), nullable=False),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("due_at", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("id", "endpoint", name="pk_webhook_deliveries"),
    )
    op.create_index("ix_webhook_deliveries_due_at", "webhook_deliveries", ["due_at"])


def downgrade() -> None:
    op.drop_table("webhook_deliveries")
    op.drop_table("batch_lines")
    op.drop_table("batches")
