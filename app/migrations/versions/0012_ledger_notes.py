"""What was done to a request's conversation that bears on its re-use."""

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("ledger", sa.Column("notes", sa.String(length=512), nullable=True))


def downgrade() -> None:
    op.drop_column("ledger", "notes")
