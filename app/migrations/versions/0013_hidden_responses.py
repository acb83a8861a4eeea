"""Responses that nobody may see any more, and that others go on from."""

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column(
        "stored_responses",
        sa.Column("hidden", sa.Boolean(), server_default=sa.false(), nullable=False),
    )
    op.add_column("stored_responses", sa.Column("said", sa.JSON(), nullable=True))
    op.create_index("ix_stored_responses_previous_id", "stored_responses", ["previous_id"])
    op.create_index(
        "ix_stored_responses_hidden_created_at", "stored_responses", ["hidden", "created_at"]
    )
    op.drop_index("ix_stored_responses_created_at", "stored_responses")


def downgrade() -> None:
    hidden = sa.table("stored_responses", sa.column("hidden", sa.Boolean()))
    op.execute(sa.delete(hidden).where(hidden.c.hidden.is_(True)))
    op.create_index("ix_stored_responses_created_at", "stored_responses", ["created_at"])
    op.drop_index("ix_stored_responses_hidden_created_at", "stored_responses")
    op.drop_index("ix_stored_responses_previous_id", "stored_responses")
    op.drop_column("stored_responses", "said")
    op.drop_column("stored_responses", "hidden")
