"""The first schema: the ledger, files, collections, documents, chunks."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

SERIAL = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    op.create_table(
        "ledger",
        sa.Column("request_id", sa.String(length=128), nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("tenant", sa.String(length=128), nullable=False),
        sa.Column("template", sa.String(length=128), nullable=False),
        sa.Column("collection", sa.String(length=256), nullable=True),
        sa.Column("mode", sa.String(length=16), nullable=True),
        sa.Column("replica", sa.String(length=256), nullable=True),
        sa.Column("prompt_tokens", sa.Integer(), nullable=True),
        sa.Column("ideal_tokens", sa.Integer(), nullable=True),
        sa.Column("cached_tokens", sa.Integer(), nullable=True),
        sa.Column("cached_gpu", sa.Integer(), nullable=True),
        sa.Column("cached_ram", sa.Integer(), nullable=True),
        sa.Column("cached_ssd", sa.Integer(), nullable=True),
        sa.Column("cached_redis", sa.Integer(), nullable=True),
        sa.Column("cached_storage", sa.Integer(), nullable=True),
        sa.Column("completion_tokens", sa.Integer(), nullable=True),
        sa.Column("ttft_s", sa.Double(), nullable=True),
        sa.Column("e2e_s", sa.Double(), nullable=True),
        sa.Column("verdict", sa.String(length=32), nullable=True),
        sa.Column("divergence", sa.JSON(none_as_null=True), nullable=True),
        sa.Column("status", sa.String(length=16), nullable=False),
        sa.Column("error_code", sa.String(length=64), nullable=True),
        sa.CheckConstraint("status IN ('ok', 'error', 'aborted')", name="ck_ledger_status"),
        sa.PrimaryKeyConstraint("request_id", name="pk_ledger"),
    )
    op.create_index("ix_ledger_at", "ledger", ["at"], unique=False)
    op.create_index("ix_ledger_template_at", "ledger", ["template", "at"], unique=False)
    op.create_table(
        "chunks",
        sa.Column("collection_id", sa.String(length=64), nullable=False),
        sa.Column("document_id", sa.String(length=64), nullable=False),
        sa.Column("position", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("id", sa.String(length=64), nullable=False),
        sa.Column("start", sa.Integer(), nullable=False),
        sa.Column("end", sa.Integer(), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.Column("token_count", sa.Integer(), nullable=False),
        sa.Column("page", sa.Integer(), nullable=True),
        sa.Column("heading_path", sa.JSON(), nullable=False),
        sa.Column("embedding", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("collection_id", "document_id", "position", name="pk_chunks"),
    )
    op.create_index("chunks_by_id", "chunks", ["collection_id", "id"], unique=False)
    op.create_table(
        "collection_files",
        sa.Column("serial", SERIAL, autoincrement=True, nullable=False),
        sa.Column("collection_id", sa.String(length=64), nullable=False),
        sa.Column("file_id", sa.String(length=64), nullable=False),
        sa.Column("status", sa.String(length=16), nullable=False),
        sa.Column("document_id", sa.String(length=64), nullable=True),
        sa.Column("chunk_count", sa.Integer(), nullable=False),
        sa.Column("error_code", sa.String(length=64), nullable=True),
        sa.Column("error_message", sa.Text(), nullable=True),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("serial", name="pk_collection_files"),
        sa.UniqueConstraint(
            "collection_id", "file_id", name="uq_collection_files_collection_id_file_id"
        ),
    )
    op.create_index("collection_files_by_file", "collection_files", ["file_id"], unique=False)
    op.create_table(
        "collections",
        sa.Column("serial", SERIAL, autoincrement=True, nullable=False),
        sa.Column("id", sa.String(length=64), nullable=False),
        sa.Column("tenant", sa.String(length=255), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("embedder", sa.Text(), nullable=False),
        sa.Column("dimension", sa.Integer(), nullable=False),
        sa.Column("revision", sa.BigInteger(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("serial", name="pk_collections"),
        sa.UniqueConstraint("id", name="uq_collections_id"),
    )
    op.create_index("collections_by_tenant", "collections", ["tenant"], unique=False)
    op.create_table(
        "documents",
        sa.Column("collection_id", sa.String(length=64), nullable=False),
        sa.Column("id", sa.String(length=64), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("file_id", sa.String(length=64), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("media_type", sa.String(length=64), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.Column("token_count", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("collection_id", "id", name="pk_documents"),
        sa.UniqueConstraint(
            "collection_id", "position", name="uq_documents_collection_id_position"
        ),
    )
    op.create_table(
        "files",
        sa.Column("serial", SERIAL, autoincrement=True, nullable=False),
        sa.Column("id", sa.String(length=64), nullable=False),
        sa.Column("tenant", sa.String(length=255), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("purpose", sa.String(length=64), nullable=False),
        sa.Column("size_bytes", sa.BigInteger(), nullable=False),
        sa.Column("digest", sa.String(length=64), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("deleting", sa.Boolean(), nullable=False),
        sa.PrimaryKeyConstraint("serial", name="pk_files"),
        sa.UniqueConstraint("id", name="uq_files_id"),
    )
    op.create_index("files_by_tenant_and_digest", "files", ["tenant", "digest"], unique=False)


def downgrade() -> None:
    for table in ("files", "documents", "collections", "collection_files", "chunks", "ledger"):
        op.drop_table(table)
