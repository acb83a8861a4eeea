"""API keys, tenants' limits and use, and the audit log."""

import sqlalchemy as sa
from alembic import op

from cache.tables import UtcDateTime

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "api_keys",
        sa.Column("id", sa.String(length=32), nullable=False),
        sa.Column("digest", sa.String(length=64), nullable=False),
        sa.Column("tenant", sa.String(length=128), nullable=False),
        sa.Column("name", sa.String(length=255), nullable=False),
        sa.Column("role", sa.String(length=16), nullable=False),
        sa.Column("priority", sa.String(length=16), nullable=False),
        sa.Column("hint", sa.String(length=16), nullable=False),
        sa.Column("created_at", UtcDateTime(), nullable=False),
        sa.Column("expires_at", UtcDateTime()),
        sa.Column("revoked_at", UtcDateTime()),
        sa.Column("replaced_by", sa.String(length=32)),
        sa.Column("last_used_at", UtcDateTime()),
        sa.PrimaryKeyConstraint("id", name="pk_api_keys"),
    )
    op.create_index("ix_api_keys_digest", "api_keys", ["digest"], unique=True)
    op.create_table(
        "tenant_limits",
        sa.Column("tenant", sa.String(length=128), nullable=False),
        sa.Column("requests_per_min", sa.Integer()),
        sa.Column("tokens_per_min", sa.BigInteger()),
        sa.Column("concurrent", sa.Integer()),
        sa.Column("tokens_per_day", sa.BigInteger()),
        sa.Column("max_output_tokens", sa.Integer()),
        sa.Column("max_prompt_tokens", sa.Integer()),
        sa.Column("weight", sa.Double(), nullable=False),
        sa.Column("updated_at", UtcDateTime(), nullable=False),
        sa.PrimaryKeyConstraint("tenant", name="pk_tenant_limits"),
    )
    op.create_table(
        "tenant_days",
        sa.Column("tenant", sa.String(length=128), nullable=False),
        sa.Column("day", sa.String(length=10), nullable=False),
        sa.Column("tokens", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("tenant", "day", name="pk_tenant_days"),
    )
    revisions = op.create_table(
        "admission_revision",
        sa.Column("id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("revision", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_admission_revision"),
    )
    op.bulk_insert(revisions, [{"id": 1, "revision": 0}])
    op.create_table(
        "audit_log",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("at", UtcDateTime(), nullable=False),
        sa.Column("key_id", sa.String(length=32)),
        sa.Column("tenant", sa.String(length=128), nullable=False),
        sa.Column("action", sa.String(length=64), nullable=False),
        sa.Column("target", sa.String(length=255), nullable=False),
        sa.Column("details", sa.JSON(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_audit_log"),
    )


def downgrade() -> None:
    for table in (
        "audit_log",
        "admission_revision",
        "tenant_days",
        "tenant_limits",
        "api_keys",
    ):
        op.drop_table(table)
