"""What operators ordered of replicas, for all gateways."""

import sqlalchemy as sa
from alembic import op

from cache.tables import UtcDateTime

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "replica_orders",
        sa.Column("url", sa.String(length=512), nullable=False),
        sa.Column("name", sa.String(length=255), nullable=False),
        sa.Column("added", sa.Boolean(), nullable=False),
        sa.Column("standing", sa.String(length=16), nullable=False),
        sa.Column("ordered_at", UtcDateTime(), nullable=False),
        sa.PrimaryKeyConstraint("url", name="pk_replica_orders"),
    )


def downgrade() -> None:
    op.drop_table("replica_orders")
