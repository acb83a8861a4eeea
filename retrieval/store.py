"""Collections and which files they hold, read and written on a connection that the caller owns.

Nothing here commits. A collection gains or loses a file in one transaction, so a crash leaves it
either without the file or with all of it. Each change of a collection begins with `lock` or
`claim`, a write: it takes the row's (in SQLite: the database's) write lock before anything is read,
so that two changes never build on the same state.
"""

import time
from dataclasses import replace
from typing import Any

from sqlalchemy import Connection, Row, bindparam, delete, exists, func, insert, select, update

from retrieval.errors import CollectionNotFoundError
from retrieval.records import (
    Collection,
    CollectionSize,
    CollectionStatus,
    FileStatus,
)
from retrieval.tables import (
    chunks,
    collection_files,
    collections,
    documents,
    file_batch_files,
    file_batches,
    files,
    pending_embeddings,
)

_OF_A_COLLECTION = (
    chunks,
    documents,
    collection_files,
    file_batch_files,
    file_batches,
    pending_embeddings,
)

_HAS_FILES_IN_PROGRESS = (
    exists()
    .where(
        collection_files.c.collection_id == collections.c.id,
        collection_files.c.status == FileStatus.IN_PROGRESS.value,
    )
    .label("is_busy")
)
# Asked for by each search: put together once, since that takes longer than running it.
_ONE_COLLECTION = select(collections, _HAS_FILES_IN_PROGRESS).where(
    collections.c.id == bindparam("id"), collections.c.tenant == bindparam("tenant")
)


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
            metadata=dict(collection.metadata),
            expires_after_days=collection.expires_after_days,
            last_active_at=collection.last_active_at,
            mode=collection.mode,
            priority=collection.priority,
        )
    )


def update_collection(connection: Connection, collection_id: str, **values: Any) -> None:
    """Sets columns of a collection; its documents and revision stay.

    Raises:
        CollectionNotFoundError: it was deleted meanwhile.
    """
    changed = connection.execute(
        update(collections).where(collections.c.id == collection_id).values(**values)
    )
    if changed.rowcount == 0:
        raise CollectionNotFoundError(collection_id)


def select_collections(
    connection: Connection, tenant: str, now: float | None = None
) -> list[Collection]:
    """A tenant's collections as of now, oldest first."""
    query = select(collections, _HAS_FILES_IN_PROGRESS).where(collections.c.tenant == tenant)
    rows = connection.execute(query.order_by(collections.c.serial))
    return [_collection(row, now, busy=row.is_busy) for row in rows]


def has_collections(connection: Connection) -> bool:
    """Whether there is any collection, whosesoever."""
    return connection.execute(select(collections.c.serial).limit(1)).first() is not None


def select_expiring(connection: Connection, now: float) -> list[Collection]:
    """All tenants' collections that may expire, as of now."""
    query = select(collections).where(collections.c.expires_after_days.is_not(None))
    rows = connection.execute(query.order_by(collections.c.serial))
    return [_collection(row, now, busy=False) for row in rows]


def select_collection(
    connection: Connection, collection_id: str, tenant: str, now: float | None = None
) -> Collection:
    """One collection as of now, by default as the clock says.

    Raises:
        CollectionNotFoundError: there is none with this id for this tenant.
    """
    named = {"id": collection_id, "tenant": tenant}
    row = connection.execute(_ONE_COLLECTION, named).one_or_none()
    if row is None:
        raise CollectionNotFoundError(collection_id)
    return _collection(row, now, busy=row.is_busy)


def lock(connection: Connection, collection_id: str) -> None:
    """Takes a collection's write lock, so that what is read from here on stays.

    Raises:
        CollectionNotFoundError: it was deleted meanwhile.
    """
    update_collection(connection, collection_id, revision=collections.c.revision)


def claim(connection: Connection, collection_id: str) -> None:
    """Opens a change of a collection: takes the write lock and raises its revision.

    Raises:
        CollectionNotFoundError: it was deleted meanwhile.
    """
    update_collection(connection, collection_id, revision=collections.c.revision + 1)


def delete_collection(connection: Connection, collection_id: str) -> None:
    """Removes a collection with all that it holds; the files stay."""
    claim(connection, collection_id)
    for table in _OF_A_COLLECTION:
        connection.execute(delete(table).where(table.c.collection_id == collection_id))
    connection.execute(delete(collections).where(collections.c.id == collection_id))


def collection_size(connection: Connection, collection_id: str) -> CollectionSize:
    """How much a collection holds."""
    of_it = collection_files.c.collection_id == collection_id
    counted = connection.execute(
        select(
            collection_files.c.status,
            func.count(),
            func.coalesce(func.sum(collection_files.c.usage_bytes), 0),
            func.coalesce(func.sum(files.c.size_bytes), 0),
        )
        .outerjoin(files, files.c.id == collection_files.c.file_id)
        .where(of_it)
        .group_by(collection_files.c.status)
    )
    by_status = {FileStatus(row[0]): (int(row[1]), int(row[2]), int(row[3])) for row in counted}
    completed, usage_bytes, file_bytes = by_status.get(FileStatus.COMPLETED, (0, 0, 0))
    document_count, token_count = connection.execute(
        select(func.count(), func.coalesce(func.sum(documents.c.token_count), 0)).where(
            documents.c.collection_id == collection_id
        )
    ).one()
    chunk_count = connection.execute(
        select(func.count()).where(chunks.c.collection_id == collection_id)
    ).scalar_one()
    return CollectionSize(
        completed_files=completed,
        failed_files=by_status.get(FileStatus.FAILED, (0,))[0],
        in_progress_files=by_status.get(FileStatus.IN_PROGRESS, (0,))[0],
        cancelled_files=by_status.get(FileStatus.CANCELLED, (0,))[0],
        file_bytes=file_bytes,
        usage_bytes=usage_bytes,
        document_count=document_count,
        chunk_count=chunk_count,
        token_count=int(token_count),
    )


def _collection(row: Row[Any], now: float | None, *, busy: bool) -> Collection:
    now = time.time() if now is None else now
    described = Collection(
        id=row.id,
        tenant=row.tenant,
        name=row.name,
        embedder=row.embedder,
        dimension=row.dimension,
        revision=row.revision,
        created_at=row.created_at,
        metadata=dict(row.metadata),
        expires_after_days=row.expires_after_days,
        last_active_at=row.last_active_at,
        status=CollectionStatus.IN_PROGRESS if busy else CollectionStatus.COMPLETED,
        mode=row.mode,
        priority=row.priority,
    )
    if described.expires_at is not None and described.expires_at <= now:
        return replace(described, status=CollectionStatus.EXPIRED)
    return described
