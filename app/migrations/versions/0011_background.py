"""Responses of the background, their events, and answers that are kept to be given again."""

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "background_responses",
        sa.Column("serial", sa.Integer(), nullable=False),
        sa.Column("id", sa.String(length=64), nullable=False),
        sa.Column("tenant", sa.String(length=255), nullable=False),
        sa.Column("conversation_id", sa.String(length=64), nullable=True),
        sa.Column("status", sa.String(length=16), nullable=False),
        sa.Column("body", sa.LargeBinary(), nullable=False),
        sa.Column("streams", sa.Boolean(), nullable=False),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.Column("not_before", sa.Double(), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("lost", sa.Integer(), nullable=False),
        sa.Column("next_event", sa.Integer(), nullable=False),
        sa.Column("owner", sa.String(length=64), nullable=True),
        sa.Column("owned_until", sa.Double(), nullable=False),
        sa.Column("ended_at", sa.Double(), nullable=True),
        sa.PrimaryKeyConstraint("serial", name="pk_background_responses"),
    )
    op.create_index("ix_background_responses_id", "background_responses", ["id"], unique=True)
    op.create_index(
        "ix_background_responses_status_tenant", "background_responses", ["status", "tenant"]
    )
    op.create_table(
        "background_events",
        sa.Column("response_id", sa.String(length=64), nullable=False),
        sa.Column("first", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("last", sa.Integer(), nullable=False),
        sa.Column("data", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("response_id", "first", name="pk_background_events"),
    )
    op.create_table(
        "kept_answers",
        sa.Column("key", sa.String(length=64), nullable=False),
        sa.Column("tenant", sa.String(length=255), nullable=False),
        sa.Column("salt", sa.String(length=128), nullable=False),
        sa.Column("request_id", sa.String(length=64), nullable=False),
        sa.Column("made_at", sa.Double(), nullable=False),
        sa.Column("expires_at", sa.Double(), nullable=False),
        sa.Column("bytes", sa.Integer(), nullable=False),
        sa.Column("answer", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("key", name="pk_kept_answers"),
    )
    for column in ("tenant", "salt", "made_at", "expires_at"):
        op.create_index(f"ix_kept_answers_{column}", "kept_answers", [column])
    op.create_table(
        "kept_answer_hours",
        sa.Column("hour", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("tenant", sa.String(length=255), nullable=False),
        sa.Column("answers", sa.BigInteger(), nullable=False),
        sa.Column("prompt_tokens", sa.BigInteger(), nullable=False),
        sa.Column("completion_tokens", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("hour", "tenant", name="pk_kept_answer_hours"),
    )


def downgrade() -> None:
    op.drop_table("kept_answer_hours")
    op.drop_table("kept_answers")
    op.drop_table("background_events")
    op.drop_table("background_responses")
