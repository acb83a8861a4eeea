"""The tables of retrieval, in its own metadata; whoever owns the database creates them.

`documents` and `chunks` belong to a collection and are content-addressed in it: two files with the
same bytes share one document. Embeddings are stored here as little-endian float32, so that every
index can be made again from the database alone.
"""

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    Column,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
    UniqueConstraint,
    text,
)

# Fixed names, so that a migration can name every constraint on either database.
metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
        "pk": "pk_%(table_name)s",
    }
)

# SQLite numbers rows by itself only for INTEGER; PostgreSQL gets 64 bits.
_SERIAL = BigInteger().with_variant(Integer, "sqlite")

files = Table(
    "files",
    metadata,
    Column("serial", _SERIAL, primary_key=True, autoincrement=True),
    Column("id", String(64), nullable=False, unique=True),
    Column("tenant", String(255), nullable=False),
    Column("name", Text, nullable=False),
    Column("purpose", String(64), nullable=False),
    Column("size_bytes", BigInteger, nullable=False),
    Column("digest", String(64), nullable=False),
    Column("created_at", BigInteger, nullable=False),
    # Set before the bytes are removed, so that a crash in between is finished at the next start.
    Column("deleting", Boolean, nullable=False, default=False),
    Index("files_by_tenant_and_digest", "tenant", "digest"),
)

collections = Table(
    "collections",
    metadata,
    Column("serial", _SERIAL, primary_key=True, autoincrement=True),
    Column("id", String(64), nullable=False, unique=True),
    Column("tenant", String(255), nullable=False),
    Column("name", Text, nullable=False),
    Column("embedder", Text, nullable=False),
    Column("dimension", Integer, nullable=False),
    # Counts changes to the collection's documents; an index in memory knows by it that it is old.
    Column("revision", BigInteger, nullable=False, default=0),
    Column("created_at", BigInteger, nullable=False),
    Column("metadata", JSON, nullable=False, server_default=text("'{}'")),
    Column("expires_after_days", Integer, nullable=True),
    Column("last_active_at", BigInteger, nullable=False, server_default=text("0")),
    Column("mode", String(16), nullable=True),
    Column("priority", Integer, nullable=False, server_default=text("0")),
    Index("collections_by_tenant", "tenant"),
)

collection_files = Table(
    "collection_files",
    metadata,
    Column("serial", _SERIAL, primary_key=True, autoincrement=True),
    Column("collection_id", String(64), nullable=False),
    Column("file_id", String(64), nullable=False),
    Column("status", String(16), nullable=False),
    Column("document_id", String(64), nullable=True),
    Column("chunk_count", Integer, nullable=False),
    Column("error_code", String(64), nullable=True),
    Column("error_message", Text, nullable=True),
    Column("created_at", BigInteger, nullable=False),
    Column("attributes", JSON, nullable=False, server_default=text("'{}'")),
    Column("access", JSON, nullable=False, server_default=text("'[]'")),
    Column("batch_id", String(64), nullable=True),
    Column("usage_bytes", BigInteger, nullable=False, server_default=text("0")),
    # How often work on it was begun: what kills the process each time is not begun for ever.
    Column("attempts", Integer, nullable=False, server_default=text("0")),
    UniqueConstraint("collection_id", "file_id"),
    Index("collection_files_by_file", "file_id"),
    # The rows that are in progress are the ingest queue.
    Index("collection_files_by_status", "status", "collection_id", "serial"),
)

file_batches = Table(
    "file_batches",
    metadata,
    Column("serial", _SERIAL, primary_key=True, autoincrement=True),
    Column("id", String(64), nullable=False, unique=True),
    Column("collection_id", String(64), nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("cancelled", Boolean, nullable=False),
    Index("file_batches_by_collection", "collection_id"),
)

# A file may be in several batches; what became of it stands in `collection_files` alone.
file_batch_files = Table(
    "file_batch_files",
    metadata,
    Column("batch_id", String(64), primary_key=True),
    Column("file_id", String(64), primary_key=True),
    Column("collection_id", String(64), nullable=False),
    Index("file_batch_files_by_file", "collection_id", "file_id"),
)

documents = Table(
    "documents",
    metadata,
    Column("collection_id", String(64), primary_key=True),
    Column("id", String(64), primary_key=True),
    Column("position", Integer, nullable=False),
    Column("file_id", String(64), nullable=False),
    Column("name", Text, nullable=False),
    Column("media_type", String(64), nullable=False),
    Column("text", Text, nullable=False),
    Column("token_count", Integer, nullable=False),
    UniqueConstraint("collection_id", "position"),
    # A collection's size is told without reading its texts.
    Index("documents_by_size", "collection_id", "token_count"),
)

chunks = Table(
    "chunks",
    metadata,
    Column("collection_id", String(64), primary_key=True),
    Column("document_id", String(64), primary_key=True),
    Column("position", Integer, primary_key=True, autoincrement=False),
    Column("id", String(64), nullable=False),
    Column("start", Integer, nullable=False),
    Column("end", Integer, nullable=False),
    Column("text", Text, nullable=False),
    Column("token_count", Integer, nullable=False),
    Column("page", Integer, nullable=True),
    Column("heading_path", JSON, nullable=False),
    Column("embedding", LargeBinary, nullable=False),
    # Of the words that were embedded; NULL in rows from before it was kept.
    Column("digest", String(32), nullable=True),
    Index("chunks_by_id", "collection_id", "id"),
    Index("chunks_by_digest", "digest"),
)

# Vectors of a file that is being ingested, until its chunks are stored: after a crash they need not
# be computed again. Nothing stays here of a file that is stored, cancelled or removed.
pending_embeddings = Table(
    "pending_embeddings",
    metadata,
    Column("collection_id", String(64), primary_key=True),
    Column("file_id", String(64), primary_key=True),
    Column("digest", String(32), primary_key=True),
    Column("embedding", LargeBinary, nullable=False),
)
