"""Vectors that need not be computed again, by embedder and by digest of the words.

There is no store beside the chunks: what a collection of the tenant holds is what is known, so it
is as large as the collections are, and what is deleted is gone. Only a queued file's vectors wait
apart until its chunks are stored, so that a crash costs at most one slice of them.
"""

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence

from sqlalchemy import Connection, Engine, delete, func, insert, select, update

from retrieval.chunk_store import from_stored, stored_form
from retrieval.embed import Vectors
from retrieval.records import Collection, FileStatus
from retrieval.tables import chunks, collection_files, collections, pending_embeddings
from retrieval.transactions import transaction

# SQLite before 3.32 takes at most 999 variables in a statement.
_DIGESTS_PER_QUERY = 500


def text_digest(words: str) -> str:
    """By which the vector of these words is found again."""
    return hashlib.blake2b(words.encode(), digest_size=16).hexdigest()


class EmbeddingCache:
    """Finds known vectors and keeps those of queued files. Safe for several threads."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def known(
        self, collection: Collection, file_id: str, digests: Iterable[str]
    ) -> dict[str, Vectors]:
        """By digest: the vectors (d,) that need no model.

        Never another tenant's: how fast a file is ingested must not tell what others hold.
        """
        found: dict[str, Vectors] = {}
        with transaction(self._engine) as connection:
            for batch in _batches(sorted(set(digests))):
                found.update(_stored(connection, collection, batch))
                found.update(_pending(connection, collection.id, file_id, batch))
        return found

    def keep(self, collection_id: str, file_id: str, vectors: Mapping[str, Vectors]) -> bool:
        """Keeps a queued file's vectors; False when nobody waits for that file any more."""
        with transaction(self._engine) as connection:
            if not _is_in_progress(connection, collection_id, file_id):
                return False
            of = {"collection_id": collection_id, "file_id": file_id}
            connection.execute(
                insert(pending_embeddings),
                [{**of, "digest": d, "embedding": stored_form(v)} for d, v in vectors.items()],
            )
        return True


def drop_pending(connection: Connection, collection_id: str, file_ids: Iterable[str]) -> None:
    """Forgets what was kept of files that are stored or that nobody waits for."""
    for batch in _batches(sorted(set(file_ids))):
        connection.execute(
            delete(pending_embeddings).where(
                pending_embeddings.c.collection_id == collection_id,
                pending_embeddings.c.file_id.in_(batch),
            )
        )


def _stored(
    connection: Connection, collection: Collection, digests: Sequence[str]
) -> dict[str, Vectors]:
    rank = func.row_number().over(partition_by=chunks.c.digest).label("rank")
    copies = (
        select(chunks.c.digest, chunks.c.embedding, rank)
        .join(collections, collections.c.id == chunks.c.collection_id)
        .where(
            chunks.c.digest.in_(digests),
            collections.c.tenant == collection.tenant,
            collections.c.embedder == collection.embedder,
        )
        .subquery()
    )
    query = select(copies.c.digest, copies.c.embedding).where(copies.c.rank == 1)
    return {row.digest: from_stored(row.embedding) for row in connection.execute(query)}


def _pending(
    connection: Connection, collection_id: str, file_id: str, digests: Sequence[str]
) -> dict[str, Vectors]:
    query = select(pending_embeddings).where(
        pending_embeddings.c.collection_id == collection_id,
        pending_embeddings.c.file_id == file_id,
        pending_embeddings.c.digest.in_(digests),
    )
    return {row.digest: from_stored(row.embedding) for row in connection.execute(query)}


def _is_in_progress(connection: Connection, collection_id: str, file_id: str) -> bool:
    """Asked by a write, so that it stays true until the transaction ends."""
    locked = connection.execute(
        update(collection_files)
        .where(
            collection_files.c.collection_id == collection_id,
            collection_files.c.file_id == file_id,
            collection_files.c.status == FileStatus.IN_PROGRESS.value,
        )
        .values(status=FileStatus.IN_PROGRESS.value)
    )
    return locked.rowcount == 1


def _batches(keys: Sequence[str]) -> Iterator[Sequence[str]]:
    for start in range(0, len(keys), _DIGESTS_PER_QUERY):
        yield keys[start : start + _DIGESTS_PER_QUERY]
