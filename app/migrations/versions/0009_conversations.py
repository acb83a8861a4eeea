"""Stored conversations, their items, and responses that may be gone on from."""

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "conversations",
        sa.Column("id", sa.String(length=64), nullable=False),
        sa.Column("tenant", sa.String(length=255), nullable=False),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.Column("used_at", sa.Double(), nullable=False),
        sa.Column("metadata", sa.JSON(), nullable=False),
        sa.Column("options", sa.JSON(), nullable=False),
        sa.Column("forked_from", sa.String(length=64)),
        sa.Column("next_position", sa.Integer(), nullable=False),
        sa.Column("tokens", sa.Integer()),
        sa.Column("summary", sa.JSON()),
        sa.Column("summary_through", sa.Integer()),
        sa.Column("turn", sa.String(length=64)),
        sa.Column("turn_until", sa.Double()),
        sa.PrimaryKeyConstraint("id", name="pk_conversations"),
    )
    op.create_index("ix_conversations_tenant_created_at", "conversations", ["tenant", "created_at"])
    op.create_index("ix_conversations_used_at", "conversations", ["used_at"])
    op.create_table(
        "conversation_items",
        sa.Column("conversation_id", sa.String(length=64), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("id", sa.String(length=128), nullable=False),
        sa.Column("item", sa.JSON(), nullable=False),
        sa.Column("output_ids", sa.LargeBinary()),
        sa.Column("tokenizer", sa.String(length=255)),
        sa.PrimaryKeyConstraint("conversation_id", "position", name="pk_conversation_items"),
    )
    op.create_index(
        "ix_conversation_items_conversation_id_id",
        "conversation_items",
        ["conversation_id", "id"],
        unique=True,
    )
    op.create_table(
        "stored_responses",
        sa.Column("id", sa.String(length=64), nullable=False),
        sa.Column("tenant", sa.String(length=255), nullable=False),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.Column("previous_id", sa.String(length=64)),
        sa.Column("conversation_id", sa.String(length=64)),
        sa.Column("response", sa.JSON(), nullable=False),
        sa.Column("input", sa.JSON(), nullable=False),
        sa.Column("output_ids", sa.LargeBinary()),
        sa.Column("tokenizer", sa.String(length=255)),
        sa.PrimaryKeyConstraint("id", name="pk_stored_responses"),
    )
    op.create_index("ix_stored_responses_created_at", "stored_responses", ["created_at"])
    op.create_index("ix_stored_responses_conversation_id", "stored_responses", ["conversation_id"])


def downgrade() -> None:
    op.drop_table("stored_responses")
    op.drop_table("conversation_items")
    op.drop_table("conversations")
