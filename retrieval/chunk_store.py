"""Reading and writing of a collection's documents and chunks, on a connection that the caller owns.

The canonical order is by document in order of ingestion, then by place in the document. It is the
order of the index's rows, of chunks in a prompt and of the corpus for CAG.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
from sqlalchemy import Connection, Row, Select, and_, delete, func, insert, select, update

from retrieval.documents import Chunk, Document, Passage
from retrieval.embed import Vectors
from retrieval.tables import chunks, collection_files, documents

_STORED_EMBEDDING = np.dtype("<f4")
_CHUNKS_WITH_DOCUMENTS = chunks.join(
    documents,
    and_(
        documents.c.collection_id == chunks.c.collection_id,
        documents.c.id == chunks.c.document_id,
    ),
)
# SQLite before 3.32 takes at most 999 variables in a statement.
_IDS_PER_QUERY = 500


def put_document(
    connection: Connection,
    collection_id: str,
    document: Document,
    passages: Sequence[Passage],
    embeddings: Vectors,
) -> None:
    """Adds a document with all its chunks."""
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
                "embedding": embedding.astype(_STORED_EMBEDDING).tobytes(),
            }
            for passage, embedding in zip(passages, embeddings, strict=True)
        ],
    )


def release_document(connection: Connection, collection_id: str, document_id: str) -> None:
    """Removes a document and its chunks, or hands it to the next file with the same bytes."""
    heir = connection.execute(
        select(collection_files.c.file_id)
        .where(
            collection_files.c.collection_id == collection_id,
            collection_files.c.document_id == document_id,
        )
        .order_by(collection_files.c.serial)
        .limit(1)
    ).scalar_one_or_none()
    of_document = (documents.c.collection_id == collection_id, documents.c.id == document_id)
    if heir is not None:
        connection.execute(update(documents).where(*of_document).values(file_id=heir))
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


def count_chunks(connection: Connection, collection_id: str, document_id: str) -> int:
    """How many chunks of a document a collection holds."""
    query = select(func.count()).where(
        chunks.c.collection_id == collection_id, chunks.c.document_id == document_id
    )
    return connection.execute(query).scalar_one()


def select_documents(connection: Connection, collection_id: str) -> list[Document]:
    """A collection's documents in canonical order."""
    query = (
        select(documents)
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
        )
        for row in connection.execute(query)
    ]


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
    columns = [column for column in chunks.c if column.name not in ("collection_id", "embedding")]
    return (
        select(
            *columns,
            documents.c.position.label("document_position"),
            documents.c.file_id,
            documents.c.name,
        )
        .select_from(_CHUNKS_WITH_DOCUMENTS)
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
    )
