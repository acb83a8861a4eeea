"""What keeps deleted KV deleted: tenants' epochs, and salts whose keys wait for destruction."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "tenant_epochs",
        sa.Column("tenant", sa.String(length=255), nullable=False),
        sa.Column("epoch", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("tenant", name="pk_tenant_epochs"),
    )
    op.create_table(
        "kv_deletions",
        sa.Column("salt", sa.String(length=128), nullable=False),
        sa.Column("tenant", sa.String(length=255), nullable=False),
        sa.Column("collection_id", sa.String(length=64), nullable=True),
        sa.Column("requested_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("salt", name="pk_kv_deletions"),
    )


def downgrade() -> None:
    op.drop_table("kv_deletions")
    op.drop_table("tenant_epochs")
