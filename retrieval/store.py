"""Collections and which files they hold, read and written on a connection that the caller owns.

Nothing here commits. A collection gains or loses a file in one transaction, so a crash leaves it
either without the file or with all of it. Each change of a collection begins with `claim`, a
write: it takes the row's (in SQLite: the database's) write lock before anything is read, so that
two changes never build on the same state.
"""

from typing import Any

from sqlalchemy import Connection, Row, delete, func, insert, select, update

from retrieval.chunk_store import release_document
from retrieval.errors import CollectionFileNotFoundError, CollectionNotFoundError
from retrieval.records import (
    Collection,
    CollectionFile,
    CollectionSize,
    FileError,
    FileStatus,
)
from retrieval.tables import chunks, collection_files, collections, documents, files


def insert_collection(connection: Connection, collection: Collection) -> None:
    """Adds an empty collection."""
    connection.execute(
        insert(collections).values(
            id=collection.id,
            tenant=collection.tenant,
            name=collection.name,
            embedder=collection.embedder,
            dimension=collection.dimension,
            revision=collection.revision,
            created_at=collection.created_at,
        )
    )


def select_collections(connection: Connection, tenant: str) -> list[Collection]:
    """A tenant's collections, oldest first."""
    query = select(collections).where(collections.c.tenant == tenant)
    return [_collection(row) for row in connection.execute(query.order_by(collections.c.serial))]


def select_collection(connection: Connection, collection_id: str, tenant: str) -> Collection:
    """One collection.

    Raises:
        CollectionNotFoundError: there is none with this id for this tenant.
    """
    query = select(collections).where(
        collections.c.id == collection_id, collections.c.tenant == tenant
    )
    row = connection.execute(query).one_or_none()
    if row is None:
        raise CollectionNotFoundError(collection_id)
    return _collection(row)


def claim(connection: Connection, collection_id: str) -> None:
    """Opens a change of a collection: takes the write lock and raises its revision.

    Raises:
        CollectionNotFoundError: it was deleted meanwhile.
    """
    raised = connection.execute(
        update(collections)
        .where(collections.c.id == collection_id)
        .values(revision=collections.c.revision + 1)
    )
    if raised.rowcount == 0:
        raise CollectionNotFoundError(collection_id)


def delete_collection(connection: Connection, collection_id: str) -> None:
    """Removes a collection with all that it holds; the files stay."""
    claim(connection, collection_id)
    for table in (chunks, documents, collection_files):
        connection.execute(delete(table).where(table.c.collection_id == collection_id))
    connection.execute(delete(collections).where(collections.c.id == collection_id))


def select_collection_files(connection: Connection, collection_id: str) -> list[CollectionFile]:
    """The files of a collection, in order of ingestion, failed ones included."""
    query = (
        select(collection_files)
        .where(collection_files.c.collection_id == collection_id)
        .order_by(collection_files.c.serial)
    )
    return [_collection_file(row) for row in connection.execute(query)]


def find_collection_file(
    connection: Connection, collection_id: str, file_id: str
) -> CollectionFile | None:
    """A file's place in a collection, None if it has none."""
    query = select(collection_files).where(
        collection_files.c.collection_id == collection_id, collection_files.c.file_id == file_id
    )
    row = connection.execute(query).one_or_none()
    return None if row is None else _collection_file(row)


def put_collection_file(connection: Connection, file: CollectionFile) -> None:
    """Notes a file's place in a collection, instead of an earlier note."""
    _delete_collection_file(connection, file.collection_id, file.file_id)
    error = file.last_error
    connection.execute(
        insert(collection_files).values(
            collection_id=file.collection_id,
            file_id=file.file_id,
            status=file.status.value,
            document_id=file.document_id,
            chunk_count=file.chunk_count,
            error_code=None if error is None else error.code,
            error_message=None if error is None else error.message,
            created_at=file.created_at,
        )
    )


def remove_from_collection(connection: Connection, collection_id: str, file_id: str) -> None:
    """Takes a file out of a collection; its document goes unless another file has the same bytes.

    Raises:
        CollectionFileNotFoundError: the collection doesn't hold it.
    """
    file = find_collection_file(connection, collection_id, file_id)
    if file is None:
        raise CollectionFileNotFoundError(collection_id, file_id)
    _delete_collection_file(connection, collection_id, file_id)
    if file.document_id is not None:
        release_document(connection, collection_id, file.document_id)


def collections_of_file(connection: Connection, file_id: str) -> list[str]:
    """Ids of the collections that hold a file, sorted."""
    query = select(collection_files.c.collection_id).where(collection_files.c.file_id == file_id)
    return sorted(connection.execute(query).scalars())


def collection_size(connection: Connection, collection_id: str) -> CollectionSize:
    """How much a collection holds."""
    counted = connection.execute(
        select(collection_files.c.status, func.count())
        .where(collection_files.c.collection_id == collection_id)
        .group_by(collection_files.c.status)
    )
    by_status = {row[0]: int(row[1]) for row in counted}
    file_bytes = connection.execute(
        select(func.coalesce(func.sum(files.c.size_bytes), 0))
        .join(collection_files, collection_files.c.file_id == files.c.id)
        .where(
            collection_files.c.collection_id == collection_id,
            collection_files.c.status == FileStatus.COMPLETED.value,
        )
    ).scalar_one()
    document_count, token_count = connection.execute(
        select(func.count(), func.coalesce(func.sum(documents.c.token_count), 0)).where(
            documents.c.collection_id == collection_id
        )
    ).one()
    chunk_count = connection.execute(
        select(func.count()).where(chunks.c.collection_id == collection_id)
    ).scalar_one()
    return CollectionSize(
        completed_files=by_status.get(FileStatus.COMPLETED.value, 0),
        failed_files=by_status.get(FileStatus.FAILED.value, 0),
        file_bytes=int(file_bytes),
        document_count=document_count,
        chunk_count=chunk_count,
        token_count=int(token_count),
    )


def _delete_collection_file(connection: Connection, collection_id: str, file_id: str) -> None:
    connection.execute(
        delete(collection_files).where(
            collection_files.c.collection_id == collection_id,
            collection_files.c.file_id == file_id,
        )
    )


def _collection(row: Row[Any]) -> Collection:
    return Collection(
        id=row.id,
        tenant=row.tenant,
        name=row.name,
        embedder=row.embedder,
        dimension=row.dimension,
        revision=row.revision,
        created_at=row.created_at,
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
    )
