"""Collections with attributes, expiry and access groups; file batches and the ingest queue."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

SERIAL = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def collection_columns() -> tuple[sa.Column[object], ...]:
    return (
        sa.Column("metadata", sa.JSON(), nullable=False, server_default=sa.text("'{}'")),
        sa.Column("expires_after_days", sa.Integer(), nullable=True),
        sa.Column("last_active_at", sa.BigInteger(), nullable=False, server_default=sa.text("0")),
        sa.Column("mode", sa.String(length=16), nullable=True),
        sa.Column("priority", sa.Integer(), nullable=False, server_default=sa.text("0")),
    )


def file_columns() -> tuple[sa.Column[object], ...]:
    return (
        sa.Column("attributes", sa.JSON(), nullable=False, server_default=sa.text("'{}'")),
        sa.Column("access", sa.JSON(), nullable=False, server_default=sa.text("'[]'")),
        sa.Column("batch_id", sa.String(length=64), nullable=True),
        sa.Column("usage_bytes", sa.BigInteger(), nullable=False, server_default=sa.text("0")),
        sa.Column("attempts", sa.Integer(), nullable=False, server_default=sa.text("0")),
    )


def _corpora() -> None:
    op.create_table(
        "corpora",
        sa.Column("collection_id", sa.String(length=64), nullable=False),
        sa.Column("tenant", sa.String(length=255), nullable=False),
        sa.Column("address", sa.String(length=64), nullable=True),
        sa.Column("tokens", sa.Integer(), nullable=True),
        sa.Column("resident", sa.Boolean(), nullable=False),
        sa.Column("demand", sa.Float(), nullable=False),
        sa.Column("demand_at", sa.Float(), nullable=False),
        sa.Column("verified_at", sa.Float(), nullable=True),
        sa.PrimaryKeyConstraint("collection_id", name="pk_corpora"),
    )


def upgrade() -> None:
    _corpora()
    _modes()
    for column in collection_columns():
        op.add_column("collections", column)
    op.execute("UPDATE collections SET last_active_at = created_at")
    for column in file_columns():
        op.add_column("collection_files", column)
    op.create_index(
        "collection_files_by_status",
        "collection_files",
        ["status", "collection_id", "serial"],
        unique=False,
    )
    op.add_column("chunks", sa.Column("digest", sa.String(length=32), nullable=True))
    op.create_index("chunks_by_digest", "chunks", ["digest"], unique=False)
    op.create_index(
        "documents_by_size", "documents", ["collection_id", "token_count"], unique=False
    )
    op.create_table(
        "file_batches",
        sa.Column("serial", SERIAL, autoincrement=True, nullable=False),
        sa.Column("id", sa.String(length=64), nullable=False),
        sa.Column("collection_id", sa.String(length=64), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("cancelled", sa.Boolean(), nullable=False),
        sa.PrimaryKeyConstraint("serial", name="pk_file_batches"),
        sa.UniqueConstraint("id", name="uq_file_batches_id"),
    )
    op.create_index("file_batches_by_collection", "file_batches", ["collection_id"], unique=False)
    op.create_table(
        "file_batch_files",
        sa.Column("batch_id", sa.String(length=64), nullable=False),
        sa.Column("file_id", sa.String(length=64), nullable=False),
        sa.Column("collection_id", sa.String(length=64), nullable=False),
        sa.PrimaryKeyConstraint("batch_id", "file_id", name="pk_file_batch_files"),
    )
    op.create_index(
        "file_batch_files_by_file", "file_batch_files", ["collection_id", "file_id"], unique=False
    )
    op.create_table(
        "pending_embeddings",
        sa.Column("collection_id", sa.String(length=64), nullable=False),
        sa.Column("file_id", sa.String(length=64), nullable=False),
        sa.Column("digest", sa.String(length=32), nullable=False),
        sa.Column("embedding", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("collection_id", "file_id", "digest", name="pk_pending_embeddings"),
    )


def _modes() -> None:
    op.add_column("ledger", sa.Column("mode_reason", sa.String(length=512), nullable=True))
    op.add_column("ledger", sa.Column("predicted_ttft_s", sa.Double(), nullable=True))
    op.create_table(
        "mode_learning",
        sa.Column("collection_id", sa.String(length=64), nullable=False),
        sa.Column("state", sa.JSON(), nullable=False),
        sa.Column("updated_at", sa.Float(), nullable=False),
        sa.PrimaryKeyConstraint("collection_id", name="pk_mode_learning"),
    )
    op.create_table(
        "mode_quality",
        sa.Column("collection_id", sa.String(length=64), nullable=False),
        sa.Column("metric", sa.String(length=32), nullable=False),
        sa.Column("revision", sa.BigInteger(), nullable=False),
        sa.Column("model", sa.String(length=255), nullable=False),
        sa.Column("scores", sa.JSON(), nullable=False),
        sa.Column("evaluated_at", sa.Float(), nullable=False),
        sa.PrimaryKeyConstraint("collection_id", name="pk_mode_quality"),
    )


def downgrade() -> None:
    for table in ("mode_quality", "mode_learning"):
        op.drop_table(table)
    for column in ("predicted_ttft_s", "mode_reason"):
        op.drop_column("ledger", column)
    op.drop_table("corpora")
    for table in ("pending_embeddings", "file_batch_files", "file_batches"):
        op.drop_table(table)
    op.drop_index("documents_by_size", "documents")
    op.drop_index("chunks_by_digest", "chunks")
    op.drop_column("chunks", "digest")
    op.drop_index("collection_files_by_status", "collection_files")
    # What is in progress has no place in the older schema.
    op.execute("DELETE FROM collection_files WHERE status NOT IN ('completed', 'failed')")
    for added in reversed(file_columns()):
        op.drop_column("collection_files", added.name)
    for added in reversed(collection_columns()):
        op.drop_column("collections", added.name)
