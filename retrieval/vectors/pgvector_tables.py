"""The tables of vectors in PostgreSQL: made, filled and emptied on the caller's connection."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from sqlalchemy import Connection, text

from retrieval.embed import Vectors
from retrieval.index_views import (
    DocumentKey,
    chunk_position,
    document_position,
    document_positions,
)
from retrieval.records import Collection
from retrieval.search_rows import EmbeddedRows, chunk_digests, select_vectors

FORMAT = 1
SCHEMA = "foreword_vectors"
_PER_INSERT = 1000

SETUP = (
    "CREATE EXTENSION IF NOT EXISTS vector",
    f"CREATE SCHEMA IF NOT EXISTS {SCHEMA}",
    f"""CREATE TABLE IF NOT EXISTS {SCHEMA}.collections (
        collection_id text PRIMARY KEY, manifest text NOT NULL, revision bigint NOT NULL)""",
    f"""CREATE TABLE IF NOT EXISTS {SCHEMA}.documents (
        collection_id text NOT NULL, position bigint NOT NULL, id text NOT NULL,
        digest bytea NOT NULL, chunk_count bigint NOT NULL,
        PRIMARY KEY (collection_id, position))""",
)


@dataclass(frozen=True, slots=True)
class HeldDocument:
    """A document in a table."""

    digest: bytes
    chunk_count: int


def claim(server: Connection, collection: Collection, table: str) -> bool:
    """Locks a collection's table, makes it where it is missing or of something else.

    Returns:
        Whether it is of a later revision already; then it must be left as it is.
    """
    manifest = json.dumps(
        {"format": FORMAT, "embedder": collection.embedder, "dimension": collection.dimension},
        sort_keys=True,
    )
    values = {"id": collection.id, "manifest": manifest, "revision": collection.revision}
    server.execute(
        text("SELECT pg_advisory_xact_lock(hashtext(:name))"), {"name": f"{SCHEMA} {collection.id}"}
    )
    row = server.execute(
        text(f"SELECT manifest, revision FROM {SCHEMA}.collections WHERE collection_id = :id"),
        values,
    ).one_or_none()
    if row is not None and row.manifest == manifest and _exists(server, table):
        if row.revision > collection.revision:
            return True
        server.execute(
            text(f"UPDATE {SCHEMA}.collections SET revision = :revision WHERE collection_id = :id"),
            values,
        )
        return False
    drop(server, collection.id)
    server.execute(
        text(f"INSERT INTO {SCHEMA}.collections VALUES (:id, :manifest, :revision)"), values
    )
    server.execute(
        text(f"""CREATE TABLE {table} (document_position bigint NOT NULL,
            position bigint NOT NULL, embedding vector({collection.dimension:d}) NOT NULL,
            PRIMARY KEY (document_position, position))""")
    )
    return False


def _exists(server: Connection, table: str) -> bool:
    found = server.execute(text("SELECT to_regclass(:name)"), {"name": table}).scalar_one()
    return found is not None


def documents_there(server: Connection, collection_id: str) -> dict[DocumentKey, HeldDocument]:
    """What a collection's table holds."""
    rows = server.execute(
        text(
            f"SELECT position, id, digest, chunk_count FROM {SCHEMA}.documents "
            "WHERE collection_id = :id"
        ),
        {"id": collection_id},
    )
    return {
        DocumentKey(row.position, row.id): HeldDocument(bytes(row.digest), row.chunk_count)
        for row in rows
    }


def unchanged(
    connection: Connection, collection: Collection, there: Mapping[DocumentKey, HeldDocument]
) -> dict[DocumentKey, HeldDocument]:
    """Those whose chunks are still the ones that the table was filled from."""
    now = chunk_digests(connection, collection.id, sorted(there))
    return {key: held for key, held in there.items() if now.get(key) == held.digest}


def remove(server: Connection, collection_id: str, table: str, keys: Sequence[DocumentKey]) -> None:
    """Takes documents out of a table."""
    if not keys:
        return
    values = {"id": collection_id, "positions": [key.position for key in keys]}
    server.execute(text(f"DELETE FROM {table} WHERE document_position = ANY(:positions)"), values)
    server.execute(
        text(
            f"DELETE FROM {SCHEMA}.documents "
            "WHERE collection_id = :id AND position = ANY(:positions)"
        ),
        values,
    )


def add(
    server: Connection,
    connection: Connection,
    collection: Collection,
    table: str,
    keys: Sequence[DocumentKey],
) -> None:
    """Puts documents into a table, from the database that has the embeddings."""
    if not keys:
        return
    rows = select_vectors(connection, collection.id, keys, dimension=collection.dimension)
    for start in range(0, len(rows.places), _PER_INSERT):
        span = slice(start, start + _PER_INSERT)
        places = rows.places[span].tolist()
        server.execute(
            text(f"""INSERT INTO {table} SELECT * FROM unnest(
                CAST(:documents AS bigint[]), CAST(:chunks AS bigint[]),
                CAST(:vectors AS vector[]))"""),
            {
                "documents": [document_position(place) for place in places],
                "chunks": [chunk_position(place) for place in places],
                "vectors": [written(vector) for vector in rows.vectors[span]],
            },
        )
    _note(server, collection.id, keys, rows)


def _note(
    server: Connection, collection_id: str, keys: Sequence[DocumentKey], rows: EmbeddedRows
) -> None:
    positions, counts = np.unique(document_positions(rows.places), return_counts=True)
    count_of = dict(zip(positions.tolist(), counts.tolist(), strict=True))
    server.execute(
        text(
            f"INSERT INTO {SCHEMA}.documents VALUES (:collection, :position, :id, :digest, :count)"
        ),
        [
            {
                "collection": collection_id,
                "position": key.position,
                "id": key.id,
                "digest": rows.digests.get(key, b""),
                "count": count_of.get(key.position, 0),
            }
            for key in keys
        ],
    )


def drop(server: Connection, collection_id: str) -> None:
    """Removes all that is held for a collection."""
    server.execute(text(f"DROP TABLE IF EXISTS {table_of(collection_id)}"))
    for table in ("documents", "collections"):
        server.execute(
            text(f"DELETE FROM {SCHEMA}.{table} WHERE collection_id = :id"), {"id": collection_id}
        )


def table_of(collection_id: str) -> str:
    """A collection's table, named by a digest: an id is no identifier of SQL."""
    digest = hashlib.blake2b(collection_id.encode(), digest_size=16).hexdigest()
    return f"{SCHEMA}.v_{digest}"


def written(vector: Vectors) -> str:
    """pgvector's text form; every float32 comes back as it was."""
    return "[" + ",".join(map(repr, vector.tolist())) + "]"
