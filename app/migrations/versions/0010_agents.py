"""Runs of agents: their steps, and the calls of tools, written down before they are made."""

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "agent_runs",
        sa.Column("id", sa.String(length=64), nullable=False),
        sa.Column("tenant", sa.String(length=255), nullable=False),
        sa.Column("agent", sa.String(length=64), nullable=False),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.Column("ended_at", sa.Double()),
        sa.Column("status", sa.String(length=16), nullable=False),
        sa.Column("reason", sa.String(length=64)),
        sa.Column("request", sa.JSON(), nullable=False),
        sa.Column("input", sa.JSON(), nullable=False),
        sa.Column("conversation_id", sa.String(length=64)),
        sa.Column("parent_id", sa.String(length=64)),
        sa.Column("parent_step", sa.Integer()),
        sa.Column("parent_place", sa.Integer()),
        sa.Column("driven", sa.Boolean(), nullable=False),
        sa.Column("cancelled", sa.Boolean(), nullable=False),
        sa.Column("seconds", sa.Double(), nullable=False),
        sa.Column("owner", sa.String(length=64)),
        sa.Column("owned_until", sa.Double(), nullable=False),
        sa.Column("response", sa.JSON()),
        sa.PrimaryKeyConstraint("id", name="pk_agent_runs"),
    )
    op.create_index("ix_agent_runs_tenant_created_at", "agent_runs", ["tenant", "created_at"])
    op.create_index("ix_agent_runs_status", "agent_runs", ["status"])
    op.create_index("ix_agent_runs_conversation_id", "agent_runs", ["conversation_id"])
    op.create_index("ix_agent_runs_parent_id", "agent_runs", ["parent_id"])
    op.create_table(
        "agent_steps",
        sa.Column("run_id", sa.String(length=64), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("items", sa.JSON(), nullable=False),
        sa.Column("output_ids", sa.LargeBinary()),
        sa.Column("tokenizer", sa.String(length=255)),
        sa.Column("finish", sa.String(length=32)),
        sa.Column("tokens", sa.Integer(), nullable=False),
        sa.Column("report", sa.JSON(), nullable=False),
        sa.PrimaryKeyConstraint("run_id", "number", name="pk_agent_steps"),
    )
    op.create_table(
        "agent_calls",
        sa.Column("run_id", sa.String(length=64), nullable=False),
        sa.Column("step", sa.Integer(), nullable=False),
        sa.Column("place", sa.Integer(), nullable=False),
        sa.Column("call_id", sa.String(length=255), nullable=False),
        sa.Column("name", sa.String(length=255), nullable=False),
        sa.Column("arguments", sa.Text(), nullable=False),
        sa.Column("idempotent", sa.Boolean(), nullable=False),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("output", sa.Text()),
        sa.Column("is_error", sa.Boolean(), nullable=False),
        sa.Column("spent", sa.JSON(), nullable=False),
        sa.PrimaryKeyConstraint("run_id", "step", "place", name="pk_agent_calls"),
    )


def downgrade() -> None:
    op.drop_table("agent_calls")
    op.drop_table("agent_steps")
    op.drop_table("agent_runs")
