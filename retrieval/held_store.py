"""Which files collections hold, read and written on a connection that the caller owns.

Nothing here commits; see `retrieval.store` for how a change begins.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from sqlalchemy import Connection, Row, Select, delete, insert, select, update

from retrieval.chunk_store import release_document
from retrieval.documents import AttributeValue
from retrieval.errors import CollectionFileNotFoundError
from retrieval.listing import Page, PageQuery, select_page
from retrieval.records import CollectionFile, FileError, FileStatus
from retrieval.tables import collection_files, file_batch_files, files, pending_embeddings


def select_collection_files(
    connection: Connection, collection_id: str, *, batch_id: str | None = None
) -> list[CollectionFile]:
    """The files of a collection, or of one of its batches, in any state, in the order they came."""
    query = _held(collection_id, batch_id).order_by(collection_files.c.serial)
    return [_collection_file(row) for row in connection.execute(query)]


def select_collection_files_page(
    connection: Connection,
    collection_id: str,
    page: PageQuery,
    *,
    batch_id: str | None = None,
    status: FileStatus | None = None,
) -> Page[CollectionFile]:
    """A page of the files of a collection or batch, or of those in one state.

    Raises:
        NotInListError
    """
    query = _held(collection_id, batch_id)
    if status is not None:
        query = query.where(collection_files.c.status == status.value)
    columns = collection_files.c
    found = select_page(connection, query, page, id=columns.file_id, serial=columns.serial)
    return Page(items=tuple(map(_collection_file, found.items)), has_more=found.has_more)


def find_collection_file(
    connection: Connection, collection_id: str, file_id: str
) -> CollectionFile | None:
    """A file's place in a collection, None if it has none."""
    query = select(collection_files).where(*_place(collection_id, file_id))
    row = connection.execute(query).one_or_none()
    return None if row is None else _collection_file(row)


def select_held_names(connection: Connection, collection_id: str) -> dict[str, str]:
    """The name of each file of a collection, by its id, in the order they came."""
    query = (
        select(collection_files.c.file_id, files.c.name)
        .join(files, files.c.id == collection_files.c.file_id)
        .where(collection_files.c.collection_id == collection_id)
    )
    rows = connection.execute(query.order_by(collection_files.c.serial))
    return {row.file_id: row.name for row in rows}


def select_held_digests(connection: Connection, collection_id: str, name: str) -> dict[str, str]:
    """The digest of each of a collection's files of one name, by its id, in the order they came."""
    query = (
        select(collection_files.c.file_id, files.c.digest)
        .join(files, files.c.id == collection_files.c.file_id)
        .where(collection_files.c.collection_id == collection_id, files.c.name == name)
    )
    rows = connection.execute(query.order_by(collection_files.c.serial))
    return {row.file_id: row.digest for row in rows}


def put_collection_file(connection: Connection, file: CollectionFile) -> None:
    """Notes a file's place in a collection; it keeps its rank if it has one."""
    error = file.last_error
    values = {
        "status": file.status.value,
        "document_id": file.document_id,
        "chunk_count": file.chunk_count,
        "error_code": None if error is None else error.code,
        "error_message": None if error is None else error.message,
        "created_at": file.created_at,
        "attributes": dict(file.attributes),
        "access": list(file.access),
        "batch_id": file.batch_id,
        "usage_bytes": file.usage_bytes,
        "attempts": 0,
    }
    place = _place(file.collection_id, file.file_id)
    known = connection.execute(update(collection_files).where(*place).values(values))
    if known.rowcount == 0:
        connection.execute(
            insert(collection_files).values(
                collection_id=file.collection_id, file_id=file.file_id, **values
            )
        )


def describe_collection_file(
    connection: Connection,
    file: CollectionFile,
    *,
    attributes: Mapping[str, AttributeValue],
    access: tuple[str, ...],
) -> CollectionFile:
    """Gives a file of a collection other attributes and access groups."""
    connection.execute(
        update(collection_files)
        .where(*_place(file.collection_id, file.file_id))
        .values(attributes=dict(attributes), access=list(access))
    )
    return replace(file, attributes=dict(attributes), access=access)


def remove_from_collection(connection: Connection, collection_id: str, file_id: str) -> None:
    """Takes a file out of a collection; its document goes unless another file has the same bytes.

    Raises:
        CollectionFileNotFoundError: the collection doesn't hold it.
    """
    file = find_collection_file(connection, collection_id, file_id)
    if file is None:
        raise CollectionFileNotFoundError(collection_id, file_id)
    for table in (collection_files, file_batch_files, pending_embeddings):
        connection.execute(
            delete(table).where(table.c.collection_id == collection_id, table.c.file_id == file_id)
        )
    if file.document_id is not None:
        release_document(connection, collection_id, file.document_id)


def collections_of_file(connection: Connection, file_id: str) -> list[str]:
    """Ids of the collections that hold a file, sorted."""
    query = select(collection_files.c.collection_id).where(collection_files.c.file_id == file_id)
    return sorted(connection.execute(query).scalars())


def has_restricted_files(connection: Connection, collection_id: str) -> bool:
    """Whether some file of a collection is for certain groups only, whatever its state."""
    query = select(collection_files.c.access).where(
        collection_files.c.collection_id == collection_id
    )
    return any(connection.execute(query).scalars())


def _held(collection_id: str, batch_id: str | None) -> Select[Any]:
    query = select(collection_files).where(collection_files.c.collection_id == collection_id)
    if batch_id is None:
        return query
    members = select(file_batch_files.c.file_id).where(file_batch_files.c.batch_id == batch_id)
    return query.where(collection_files.c.file_id.in_(members))


def _place(collection_id: str, file_id: str) -> tuple[Any, ...]:
    return (
        collection_files.c.collection_id == collection_id,
        collection_files.c.file_id == file_id,
    )


def _collection_file(row: Row[Any]) -> CollectionFile:
    failed = row.status == FileStatus.FAILED.value
    return CollectionFile(
        collection_id=row.collection_id,
        file_id=row.file_id,
        status=FileStatus(row.status),
        document_id=row.document_id,
        chunk_count=row.chunk_count,
        last_error=FileError(code=row.error_code, message=row.error_message) if failed else None,
        created_at=row.created_at,
        attributes=dict(row.attributes),
        access=tuple(row.access),
        batch_id=row.batch_id,
        usage_bytes=row.usage_bytes,
    )
