"""What indexes are made of, read from the database on a connection that the caller owns."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

import numpy as np
from sqlalchemy import Connection, Select, and_, select

from retrieval.documents import AttributeValue
from retrieval.embed import Vectors
from retrieval.index_views import DocumentKey, Places, place_of
from retrieval.records import FileStatus
from retrieval.tables import chunks, collection_files, documents, files

_STORED_EMBEDDING = np.dtype("<f4")
_PER_FETCH = 4096
# SQLite before 3.32 takes at most 999 variables in a statement.
_IDS_PER_QUERY = 500
_DIGEST_BYTES = 16
_CHUNKS_WITH_DOCUMENTS = chunks.join(
    documents,
    and_(
        documents.c.collection_id == chunks.c.collection_id,
        documents.c.id == chunks.c.document_id,
    ),
)


@dataclass(frozen=True, slots=True)
class Holder:
    """A file that a document came from; several with equal bytes share one.

    A document is found by whoever may see one of its holders, and is cited as that one.
    """

    file_id: str
    name: str
    attributes: Mapping[str, AttributeValue]
    access: tuple[str, ...]


@dataclass(frozen=True, slots=True, eq=False)
class EmbeddedRows:
    """Vectors of chunks in canonical order.

    Attributes:
        places: (n,) int64.
        vectors: (n, d) float32, rows L2-normalised.
        digests: of each document's chunk ids, see `chunk_digests`.
    """

    places: Places
    vectors: Vectors
    digests: Mapping[DocumentKey, bytes]


def select_documents_held(
    connection: Connection, collection_id: str
) -> dict[DocumentKey, tuple[Holder, ...]]:
    """The collection's documents in canonical order, with the files that each came from.

    A document that no completed file stands for is nobody's to find, and is left out.
    """
    query = (
        select(documents.c.position, documents.c.id)
        .where(documents.c.collection_id == collection_id)
        .order_by(documents.c.position)
    )
    keys = [DocumentKey(row.position, row.id) for row in connection.execute(query)]
    holders = _holders(connection, collection_id)
    return {key: holders[key.id] for key in keys if key.id in holders}


def select_vectors(
    connection: Connection, collection_id: str, keys: Sequence[DocumentKey], *, dimension: int
) -> EmbeddedRows:
    """Vectors of these documents, in canonical order.

    Args:
        keys: in canonical order.

    Documents that have gone or moved meanwhile are left out.
    """
    places: list[int] = []
    parts = [np.zeros((0, dimension), np.float32)]
    digests = _Digests()
    columns = (chunks.c.position, chunks.c.id, chunks.c.embedding)
    for rows in _chunk_rows(connection, collection_id, keys, *columns):
        for row in rows:
            places.append(place_of(row.document_position, row.position))
            digests.add(DocumentKey(row.document_position, row.document_id), row.id)
        data = b"".join(row.embedding for row in rows)
        parts.append(np.frombuffer(data, _STORED_EMBEDDING).reshape(-1, dimension))
    vectors = np.concatenate(parts).astype(np.float32, copy=False)
    return EmbeddedRows(np.array(places, np.int64), vectors, digests.taken())


def select_texts(
    connection: Connection, collection_id: str, keys: Sequence[DocumentKey]
) -> Iterator[tuple[DocumentKey, int, str, str]]:
    """(document, place, chunk id, text with the headings above it), in canonical order."""
    columns = (chunks.c.position, chunks.c.id, chunks.c.text, chunks.c.heading_path)
    for rows in _chunk_rows(connection, collection_id, keys, *columns):
        for row in rows:
            key = DocumentKey(row.document_position, row.document_id)
            titles = [title for title in row.heading_path if title not in row.text]
            text = "\n".join([*titles, row.text])
            yield key, place_of(row.document_position, row.position), row.id, text


def chunk_digests(
    connection: Connection, collection_id: str, keys: Sequence[DocumentKey]
) -> dict[DocumentKey, bytes]:
    """A digest of each document's chunk ids: equal ones mean the same chunks."""
    digests = _Digests()
    for rows in _chunk_rows(connection, collection_id, keys, chunks.c.position, chunks.c.id):
        for row in rows:
            digests.add(DocumentKey(row.document_position, row.document_id), row.id)
    return digests.taken()


def _holders(connection: Connection, collection_id: str) -> dict[str, tuple[Holder, ...]]:
    """By document id: the files that it came from, in the order they came."""
    query = (
        select(
            collection_files.c.document_id,
            collection_files.c.file_id,
            files.c.name,
            collection_files.c.attributes,
            collection_files.c.access,
        )
        .join(files, files.c.id == collection_files.c.file_id)
        .where(
            collection_files.c.collection_id == collection_id,
            collection_files.c.status == FileStatus.COMPLETED.value,
        )
        .order_by(collection_files.c.serial)
    )
    found: dict[str, tuple[Holder, ...]] = {}
    for row in connection.execute(query):
        holder = Holder(row.file_id, row.name, dict(row.attributes), tuple(row.access))
        found[row.document_id] = (*found.get(row.document_id, ()), holder)
    return found


class _Digests:
    """Chunk ids gathered by document."""

    def __init__(self) -> None:
        self._ids: dict[DocumentKey, list[str]] = {}

    def add(self, key: DocumentKey, chunk_id: str) -> None:
        self._ids.setdefault(key, []).append(chunk_id)

    def taken(self) -> dict[DocumentKey, bytes]:
        return {key: digest_of_ids(ids) for key, ids in self._ids.items()}


def digest_of_ids(ids: Iterable[str]) -> bytes:
    """16 bytes: of chunk ids in order."""
    return blake2b("\n".join(ids).encode(), digest_size=_DIGEST_BYTES).digest()


def _chunk_rows(
    connection: Connection,
    collection_id: str,
    keys: Sequence[DocumentKey],
    *columns: Any,
) -> Iterator[Sequence[Any]]:
    """Rows in canonical order, some thousands at a time."""
    query = (
        select(documents.c.position.label("document_position"), chunks.c.document_id, *columns)
        .select_from(_CHUNKS_WITH_DOCUMENTS)
        .where(chunks.c.collection_id == collection_id)
        .order_by(documents.c.position, chunks.c.position)
    )
    for start in range(0, len(keys), _IDS_PER_QUERY):
        wanted = {key.id: key.position for key in keys[start : start + _IDS_PER_QUERY]}
        some = query.where(chunks.c.document_id.in_(list(wanted)))
        for rows in _fetched(connection, some):
            yield [row for row in rows if wanted[row.document_id] == row.document_position]


def _fetched(connection: Connection, query: Select[Any]) -> Iterator[Sequence[Any]]:
    result = connection.execute(query, execution_options={"yield_per": _PER_FETCH})
    yield from result.partitions()
