"""Reading and writing of a collection's documents and chunks, on a connection that the caller owns.

The canonical order is by document in order of ingestion, then by place in the document. It is the
order of the index's rows, of chunks in a prompt and of the corpus for CAG.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
from sqlalchemy import Connection, Row, Select, and_, delete, func, insert, or_, select, update

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
# SQLite before 3.32 takes at most 999 variables in a statement.
_IDS_PER_QUERY = 500


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
    rows = connection.execute(_in_canonical_order(_chunk_query(collection_id)))
    return [_chunk(row) for row in rows]


def select_chunks_by_id(
    connection: Connection, collection_id: str, chunk_ids: Iterable[str]
) -> dict[str, Chunk]:
    """The chunks with these ids; those that are gone are left out."""
    found = {}
    for batch in _batches(sorted(set(chunk_ids))):
        query = _chunk_query(collection_id).where(chunks.c.id.in_(batch))
        found.update({row.id: _chunk(row) for row in connection.execute(query)})
    return found


def select_chunks_at(
    connection: Connection, collection_id: str, places: Iterable[tuple[str, int]]
) -> dict[tuple[str, int], Chunk]:
    """The chunks at these places (document id, position in it); those that are gone are left out.

    A lookup by primary key, which no index of ids is needed for.
    """
    by_document: dict[str, list[int]] = {}
    for document_id, position in sorted(set(places)):
        by_document.setdefault(document_id, []).append(position)
    here = [
        and_(chunks.c.document_id == document_id, chunks.c.position.in_(positions))
        for document_id, positions in by_document.items()
    ]
    if not here:
        return {}
    query = _chunk_query(collection_id).where(or_(*here))
    found = [_chunk(row) for row in connection.execute(query)]
    return {(chunk.document_id, chunk.position): chunk for chunk in found}


def select_chunk_ids(connection: Connection, collection_id: str) -> list[str]:
    """Ids of all chunks of a collection in canonical order."""
    return list(connection.execute(_in_canonical_order(_select_of(collection_id, "id"))).scalars())


def select_embeddings(
    connection: Connection, collection_id: str, *, dimension: int, skip: int = 0
) -> tuple[list[str], Vectors]:
    """Chunk ids and embeddings in canonical order, all but the first `skip`, by one statement.

    The embeddings are (n, d) float32 with L2-normalised rows.
    """
    query = _in_canonical_order(_select_of(collection_id, "id", "embedding")).offset(skip)
    rows = connection.execute(query).all()
    data = b"".join(row.embedding for row in rows)
    vectors = np.frombuffer(data, dtype=_STORED_EMBEDDING).reshape(-1, dimension)
    return [row.id for row in rows], vectors.astype(np.float32, copy=False)


def _select_of(collection_id: str, *columns: str) -> Select[Any]:
    return (
        select(*(chunks.c[column] for column in columns))
        .select_from(_CHUNKS_WITH_DOCUMENTS)
        .where(chunks.c.collection_id == collection_id)
    )


def _chunk_query(collection_id: str) -> Select[Any]:
    left_out = ("collection_id", "embedding", "digest")
    columns = [column for column in chunks.c if column.name not in left_out]
    return (
        select(
            *columns,
            documents.c.position.label("document_position"),
            documents.c.file_id,
            documents.c.name,
            collection_files.c.attributes,
            collection_files.c.access,
        )
        .select_from(_CHUNKS_WITH_DOCUMENTS.outerjoin(collection_files, _FIRST_HOLDER))
        .where(chunks.c.collection_id == collection_id)
    )


def _in_canonical_order(query: Select[Any]) -> Select[Any]:
    return query.order_by(documents.c.position, chunks.c.position)


def _batches(ids: Sequence[str]) -> Iterator[Sequence[str]]:
    for start in range(0, len(ids), _IDS_PER_QUERY):
        yield ids[start : start + _IDS_PER_QUERY]


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
