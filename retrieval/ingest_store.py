"""File batches and the ingest queue, read and written on a connection that the caller owns.

The queue is the rows of `collection_files` that are in progress: a file is in it before its adding
is acknowledged and leaves it in the transaction that ends it, so a restart finds what is left.
"""

from collections.abc import Collection as Container
from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import Connection, func, insert, select, update

from retrieval.embeddings import drop_pending
from retrieval.errors import FileBatchNotFoundError
from retrieval.records import FileBatch, FileStatus
from retrieval.tables import collection_files, collections, file_batch_files, file_batches


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A file that waits to be ingested; `serial` is its rank in the queue."""

    serial: int
    collection_id: str
    file_id: str
    tenant: str


def insert_batch(
    connection: Connection, batch_id: str, collection_id: str, file_ids: Sequence[str], now: int
) -> None:
    """Notes which files came together."""
    connection.execute(
        insert(file_batches).values(
            id=batch_id, collection_id=collection_id, created_at=now, cancelled=False
        )
    )
    of = {"batch_id": batch_id, "collection_id": collection_id}
    if file_ids:
        connection.execute(
            insert(file_batch_files), [{**of, "file_id": file_id} for file_id in file_ids]
        )


def select_batch(connection: Connection, collection_id: str, batch_id: str) -> FileBatch:
    """A batch with its files counted.

    Raises:
        FileBatchNotFoundError: the collection has none with this id.
    """
    row = connection.execute(
        select(file_batches).where(
            file_batches.c.id == batch_id, file_batches.c.collection_id == collection_id
        )
    ).one_or_none()
    if row is None:
        raise FileBatchNotFoundError(batch_id)
    members = select(file_batch_files.c.file_id).where(file_batch_files.c.batch_id == batch_id)
    counted = connection.execute(
        select(collection_files.c.status, func.count())
        .where(
            collection_files.c.collection_id == collection_id,
            collection_files.c.file_id.in_(members),
        )
        .group_by(collection_files.c.status)
    )
    counts = {FileStatus(status): int(count) for status, count in counted}
    return FileBatch(
        id=batch_id,
        collection_id=collection_id,
        status=_batch_status(counts, cancelled=row.cancelled),
        in_progress=counts.get(FileStatus.IN_PROGRESS, 0),
        completed=counts.get(FileStatus.COMPLETED, 0),
        failed=counts.get(FileStatus.FAILED, 0),
        cancelled=counts.get(FileStatus.CANCELLED, 0),
        created_at=row.created_at,
    )


def cancel_batch(connection: Connection, collection_id: str, batch_id: str) -> None:
    """Cancels what of a batch is still in progress; what is completed stays.

    Raises:
        FileBatchNotFoundError: the collection has none with this id.
    """
    found = connection.execute(
        update(file_batches)
        .where(file_batches.c.id == batch_id, file_batches.c.collection_id == collection_id)
        .values(cancelled=True)
    )
    if found.rowcount == 0:
        raise FileBatchNotFoundError(batch_id)
    members = select(file_batch_files.c.file_id).where(file_batch_files.c.batch_id == batch_id)
    in_progress = (
        collection_files.c.collection_id == collection_id,
        collection_files.c.file_id.in_(members),
        collection_files.c.status == FileStatus.IN_PROGRESS.value,
    )
    cancelled = connection.execute(select(collection_files.c.file_id).where(*in_progress))
    file_ids = list(cancelled.scalars())
    connection.execute(
        update(collection_files).where(*in_progress).values(status=FileStatus.CANCELLED.value)
    )
    drop_pending(connection, collection_id, file_ids)


def heads_of_queue(connection: Connection, passed_over: Container[int]) -> list[Job]:
    """The first waiting file of each collection, but for those passed over; oldest first.

    Args:
        passed_over: serials, some hundred at the most.
    """
    first = (
        select(func.min(collection_files.c.serial))
        .where(
            collection_files.c.status == FileStatus.IN_PROGRESS.value,
            collection_files.c.serial.not_in(list(passed_over)),
        )
        .group_by(collection_files.c.collection_id)
    )
    query = (
        select(
            collection_files.c.serial,
            collection_files.c.collection_id,
            collection_files.c.file_id,
            collections.c.tenant,
        )
        .join(collections, collections.c.id == collection_files.c.collection_id)
        .where(collection_files.c.serial.in_(first))
        .order_by(collection_files.c.serial)
    )
    return [
        Job(
            serial=row.serial,
            collection_id=row.collection_id,
            file_id=row.file_id,
            tenant=row.tenant,
        )
        for row in connection.execute(query)
    ]


def begin_attempt(connection: Connection, job: Job) -> int | None:
    """Counts another attempt at a file; None when nobody waits for it any more."""
    of_job = (
        collection_files.c.serial == job.serial,
        collection_files.c.status == FileStatus.IN_PROGRESS.value,
    )
    begun = connection.execute(
        update(collection_files).where(*of_job).values(attempts=collection_files.c.attempts + 1)
    )
    if begun.rowcount == 0:
        return None
    return int(connection.execute(select(collection_files.c.attempts).where(*of_job)).scalar_one())


def undo_attempt(connection: Connection, job: Job) -> None:
    """Takes back an attempt that ended in good order without the file."""
    connection.execute(
        update(collection_files)
        .where(
            collection_files.c.serial == job.serial,
            collection_files.c.attempts > 0,
        )
        .values(attempts=collection_files.c.attempts - 1)
    )


def count_waiting(connection: Connection) -> int:
    """Files in the queue, those being worked on included."""
    query = select(func.count()).where(collection_files.c.status == FileStatus.IN_PROGRESS.value)
    return connection.execute(query).scalar_one()


def _batch_status(counts: dict[FileStatus, int], *, cancelled: bool) -> FileStatus:
    if cancelled:
        return FileStatus.CANCELLED
    if counts.get(FileStatus.IN_PROGRESS):
        return FileStatus.IN_PROGRESS
    if counts.get(FileStatus.FAILED) and not counts.get(FileStatus.COMPLETED):
        return FileStatus.FAILED
    return FileStatus.COMPLETED
