"""Reading and writing of a collection's documents and chunks, on a connection that the caller owns.

The canonical order is by document in order of ingestion, then by place in the document. It is the
order of the index's rows, of chunks in a prompt and of the corpus for CAG.
"""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from sqlalchemy import (
    Connection,
    Row,
    Select,
    and_,
    bindparam,
    delete,
    func,
    insert,
    select,
    tuple_,
    update,
)

from retrieval.documents import Chunk, Document, Passage
from retrieval.embed import Vectors
from retrieval.tables import chunks, collection_files, documents, files

_STORED_EMBEDDING = np.dtype("<f4")
_CHUNKS_WITH_DOCUMENTS = chunks.join(
    documents,
    and_(
        documents.c.collection_id == chunks.c.collection_id,
        documents.c.id == chunks.c.document_id,
    ),
)
# Of the files that share a document, the first: the one that its row names.
_FIRST_HOLDER = and_(
    collection_files.c.collection_id == documents.c.collection_id,
    collection_files.c.file_id == documents.c.file_id,
)
_CHUNKS: Select[Any] = select(
    *(c for c in chunks.c if c.name not in ("collection_id", "embedding", "digest")),
    documents.c.position.label("document_position"),
    documents.c.file_id,
    documents.c.name,
    collection_files.c.attributes,
    collection_files.c.access,
).select_from(_CHUNKS_WITH_DOCUMENTS.outerjoin(collection_files, _FIRST_HOLDER))
# Asked for by each search: put together once, since that takes longer than running it.
_CHUNKS_AT = _CHUNKS.where(
    chunks.c.collection_id == bindparam("collection_id"),
    # By the last alone SQLite doesn't use the primary key, and reads the whole collection.
    chunks.c.document_id.in_(bindparam("document_ids", expanding=True)),
    chunks.c.position.in_(bindparam("positions", expanding=True)),
    tuple_(chunks.c.document_id, chunks.c.position).in_(bindparam("places", expanding=True)),
)


def put_document(
    connection: Connection,
    collection_id: str,
    document: Document,
    passages: Sequence[Passage],
    embeddings: Vectors,
    *,
    digests: Sequence[str] | None = None,
) -> None:
    """Adds a document with all its chunks.

    Args:
        digests: of the words that each embedding was made of; without them none is re-used.
    """
    connection.execute(
        insert(documents).values(
            collection_id=collection_id,
            id=document.id,
            position=document.position,
            file_id=document.file_id,
            name=document.name,
            media_type=document.media_type,
            text=document.text,
            token_count=document.token_count,
        )
    )
    known_by: Sequence[str | None] = digests or [None] * len(passages)
    connection.execute(
        insert(chunks),
        [
            {
                "collection_id": collection_id,
                "document_id": document.id,
                "position": passage.position,
                "id": passage.id,
                "start": passage.start,
                "end": passage.end,
                "text": passage.text,
                "token_count": passage.token_count,
                "page": passage.page,
                "heading_path": list(passage.heading_path),
                "embedding": stored_form(embedding),
                "digest": digest,
            }
            for passage, embedding, digest in zip(passages, embeddings, known_by, strict=True)
        ],
    )


def release_document(connection: Connection, collection_id: str, document_id: str) -> None:
    """Removes a document and its chunks, or hands it to the next file with the same bytes."""
    heir = connection.execute(
        select(collection_files.c.file_id, files.c.name)
        .join(files, files.c.id == collection_files.c.file_id)
        .where(
            collection_files.c.collection_id == collection_id,
            collection_files.c.document_id == document_id,
        )
        .order_by(collection_files.c.serial)
        .limit(1)
    ).one_or_none()
    of_document = (documents.c.collection_id == collection_id, documents.c.id == document_id)
    if heir is not None:
        now_of = {"file_id": heir.file_id, "name": heir.name}
        connection.execute(update(documents).where(*of_document).values(now_of))
        return
    connection.execute(
        delete(chunks).where(
            chunks.c.collection_id == collection_id, chunks.c.document_id == document_id
        )
    )
    connection.execute(delete(documents).where(*of_document))


def next_position(connection: Connection, collection_id: str) -> int:
    """The place of the next document: after all that are there."""
    query = select(func.max(documents.c.position)).where(documents.c.collection_id == collection_id)
    last = connection.execute(query).scalar_one()
    return 0 if last is None else last + 1


def has_document(connection: Connection, collection_id: str, document_id: str) -> bool:
    """Whether a collection holds a document."""
    query = select(documents.c.position).where(
        documents.c.collection_id == collection_id, documents.c.id == document_id
    )
    return connection.execute(query).first() is not None


def select_text(connection: Connection, collection_id: str, document_id: str) -> str:
    """A document's text; empty if it is gone."""
    query = select(documents.c.text).where(
        documents.c.collection_id == collection_id, documents.c.id == document_id
    )
    return connection.execute(query).scalar_one_or_none() or ""


def count_chunks(connection: Connection, collection_id: str, document_id: str) -> int:
    """How many chunks of a document a collection holds."""
    query = select(func.count()).where(
        chunks.c.collection_id == collection_id, chunks.c.document_id == document_id
    )
    return connection.execute(query).scalar_one()


def select_documents(connection: Connection, collection_id: str) -> list[Document]:
    """A collection's documents in canonical order."""
    query = (
        select(documents, collection_files.c.attributes, collection_files.c.access)
        .outerjoin(collection_files, _FIRST_HOLDER)
        .where(documents.c.collection_id == collection_id)
        .order_by(documents.c.position)
    )
    return [
        Document(
            id=row.id,
            position=row.position,
            file_id=row.file_id,
            name=row.name,
            media_type=row.media_type,
            text=row.text,
            token_count=row.token_count,
            attributes=dict(row.attributes or {}),
            access=tuple(row.access or ()),
        )
        for row in connection.execute(query)
    ]


def stored_form(embedding: Vectors) -> bytes:
    """A vector (d,) as it is stored."""
    return embedding.astype(_STORED_EMBEDDING).tobytes()


def from_stored(embedding: bytes) -> Vectors:
    """A stored vector: (d,) float32."""
    return np.frombuffer(embedding, dtype=_STORED_EMBEDDING).astype(np.float32, copy=False)


def select_chunks(connection: Connection, collection_id: str) -> list[Chunk]:
    """All chunks of a collection in canonical order."""
    rows = connection.execute(
        _in_canonical_order(_CHUNKS.where(chunks.c.collection_id == collection_id))
    )
    return [_chunk(row) for row in rows]


def select_chunks_at(
    connection: Connection, collection_id: str, places: Iterable[tuple[str, int]]
) -> dict[tuple[str, int], Chunk]:
    """The chunks at these places (document id, position in it); those that are gone are left out.

    A lookup by primary key, which no index of ids is needed for.
    """
    wanted = sorted(set(places))
    if not wanted:
        return {}
    named = {
        "collection_id": collection_id,
        "document_ids": sorted({document_id for document_id, _ in wanted}),
        "positions": sorted({position for _, position in wanted}),
        "places": wanted,
    }
    found = [_chunk(row) for row in connection.execute(_CHUNKS_AT, named)]
    return {(chunk.document_id, chunk.position): chunk for chunk in found}


def _in_canonical_order(query: Select[Any]) -> Select[Any]:
    return query.order_by(documents.c.position, chunks.c.position)


def _chunk(row: Row[Any]) -> Chunk:
    return Chunk(
        id=row.id,
        position=row.position,
        start=row.start,
        end=row.end,
        text=row.text,
        token_count=row.token_count,
        page=row.page,
        heading_path=tuple(row.heading_path),
        document_id=row.document_id,
        document_position=row.document_position,
        file_id=row.file_id,
        name=row.name,
        attributes=dict(row.attributes or {}),
        access=tuple(row.access or ()),
    )
