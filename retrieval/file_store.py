"""Reading and writing of uploaded files, on a connection that the caller owns."""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, delete, insert, select, update

from retrieval.errors import StoredFileNotFoundError
from retrieval.listing import Page, PageQuery, select_page
from retrieval.records import StoredFile
from retrieval.tables import collection_files, files

# SQLite before 3.32 takes at most 999 variables in a statement.
_IDS_PER_QUERY = 500


def insert_file(connection: Connection, file: StoredFile) -> None:
    """Adds a file whose bytes are stored."""
    connection.execute(
        insert(files).values(
            id=file.id,
            tenant=file.tenant,
            name=file.name,
            purpose=file.purpose,
            size_bytes=file.size_bytes,
            digest=file.digest,
            created_at=file.created_at,
            deleting=False,
        )
    )


def find_file(connection: Connection, file_id: str, tenant: str) -> StoredFile | None:
    """A tenant's file, None if there is none."""
    query = select(files).where(
        files.c.id == file_id, files.c.tenant == tenant, files.c.deleting.is_(False)
    )
    row = connection.execute(query).one_or_none()
    return None if row is None else _file(row)


def select_file(connection: Connection, file_id: str, tenant: str) -> StoredFile:
    """A tenant's file.

    Raises:
        StoredFileNotFoundError: there is none with this id for this tenant.
    """
    file = find_file(connection, file_id, tenant)
    if file is None:
        raise StoredFileNotFoundError(file_id)
    return file


def hold_file(connection: Connection, file_id: str, tenant: str) -> None:
    """Takes a file's write lock: it stays until the transaction ends.

    Always before a collection's lock, as a deletion does, so that the two never wait for each
    other.

    Raises:
        StoredFileNotFoundError: there is none with this id for this tenant.
    """
    held = connection.execute(
        update(files)
        .where(files.c.id == file_id, files.c.tenant == tenant, files.c.deleting.is_(False))
        .values(deleting=False)
    )
    if held.rowcount == 0:
        raise StoredFileNotFoundError(file_id)


def select_files(connection: Connection, tenant: str) -> list[StoredFile]:
    """A tenant's files, oldest first."""
    query = select(files).where(files.c.tenant == tenant, files.c.deleting.is_(False))
    return [_file(row) for row in connection.execute(query.order_by(files.c.serial))]


def select_files_page(
    connection: Connection, tenant: str, page: PageQuery, *, purpose: str | None = None
) -> Page[StoredFile]:
    """A page of a tenant's files, or of those of one purpose.

    Raises:
        NotInListError
    """
    query = select(files).where(files.c.tenant == tenant, files.c.deleting.is_(False))
    if purpose is not None:
        query = query.where(files.c.purpose == purpose)
    found = select_page(connection, query, page, id=files.c.id, serial=files.c.serial)
    return Page(items=tuple(map(_file, found.items)), has_more=found.has_more)


def mark_deleting(connection: Connection, file_id: str, tenant: str) -> None:
    """From here on the file is gone for everybody; its bytes are still to be removed.

    Raises:
        StoredFileNotFoundError: there is none with this id for this tenant.
    """
    marked = connection.execute(
        update(files)
        .where(files.c.id == file_id, files.c.tenant == tenant, files.c.deleting.is_(False))
        .values(deleting=True)
    )
    if marked.rowcount == 0:
        raise StoredFileNotFoundError(file_id)


def mark_unheld_deleting(
    connection: Connection,
    purpose: str,
    *,
    tenant: str | None = None,
    file_ids: Sequence[str] | None = None,
) -> None:
    """Marks the files of a purpose that no collection holds.

    Args:
        tenant, file_ids: whose and which; None: all.
    """
    of_purpose = [files.c.purpose == purpose]
    if tenant is not None:
        of_purpose.append(files.c.tenant == tenant)
    if file_ids is None:
        _mark_unheld(connection, of_purpose)
        return
    for start in range(0, len(file_ids), _IDS_PER_QUERY):
        span = file_ids[start : start + _IDS_PER_QUERY]
        _mark_unheld(connection, [*of_purpose, files.c.id.in_(span)])


def _mark_unheld(connection: Connection, which: Sequence[ColumnElement[bool]]) -> None:
    held = select(collection_files.c.file_id)
    is_marked = files.c.deleting
    unheld = (is_marked.is_(False), files.c.id.not_in(held))
    connection.execute(update(files).where(*which, *unheld).values(deleting=True))
    # Looked at again now that their rows are locked: a collection may have taken one meanwhile.
    held_after_all = (is_marked.is_(True), files.c.id.in_(held))
    connection.execute(update(files).where(*which, *held_after_all).values(deleting=False))


def select_deleting(connection: Connection) -> list[StoredFile]:
    """Files whose removal is not finished."""
    query = select(files).where(files.c.deleting.is_(True)).order_by(files.c.serial)
    return [_file(row) for row in connection.execute(query)]


def is_digest_used(connection: Connection, tenant: str, digest: str) -> bool:
    """Whether a file that stays has these bytes."""
    query = select(files.c.id).where(
        files.c.tenant == tenant, files.c.digest == digest, files.c.deleting.is_(False)
    )
    return connection.execute(query.limit(1)).first() is not None


def forget_file(connection: Connection, file_id: str) -> None:
    """Removes the last trace of a file that is being deleted."""
    connection.execute(delete(files).where(files.c.id == file_id, files.c.deleting.is_(True)))


def _file(row: Row[Any]) -> StoredFile:
    return StoredFile(
        id=row.id,
        tenant=row.tenant,
        name=row.name,
        purpose=row.purpose,
        size_bytes=row.size_bytes,
        digest=row.digest,
        created_at=row.created_at,
    )
