"""`Files`: uploads of each tenant, durable before they are acknowledged.

The bytes are on disk before the row that names them is committed, and a deletion is noted before
bytes go, so a crash leaves at worst bytes that nobody sees or a deletion that the next start ends.
"""

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from sqlalchemy import Engine

from retrieval import file_store, held_store, store
from retrieval.documents import LongPart, content_id
from retrieval.drafts import Draft
from retrieval.errors import (
    FileTooLargeError,
    StorageError,
    StoredFileDamagedError,
)
from retrieval.listing import Page, PageQuery
from retrieval.records import StoredFile
from retrieval.transactions import transaction
from retrieval.vault import Vault, bytes_digest

MAX_FILE_BYTES = 64 * 2**20
# Of files that `Collections.sync` stored: one that no collection holds any more is removed.
SYNC_PURPOSE = "foreword_sync"


class Files:
    """The uploaded files. Safe for several threads; one process owns the folder."""

    def __init__(
        self,
        engine: Engine,
        folder: Path,
        *,
        max_file_bytes: int = MAX_FILE_BYTES,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._engine = engine
        self._vault = Vault(folder)
        self._max_file_bytes = max_file_bytes
        self._now = now
        # Keeps the storing of some bytes and the removal of the same bytes apart.
        self._lock = threading.Lock()
        self._finish_deletions()
        self._discard_unheld()

    def save(self, name: str, data: bytes, purpose: str, *, tenant: str) -> StoredFile:
        """Stores a file; when this returns it is on disk. The same upload again changes nothing.

        Raises:
            FileTooLargeError: larger than accepted.
            StorageError: disk or database refused; nothing was stored.
        """
        if len(data) > self._max_file_bytes:
            raise FileTooLargeError(name, len(data), self._max_file_bytes)
        file = StoredFile(
            id=content_id("file", (tenant, purpose, name, data)),
            tenant=tenant,
            name=name,
            purpose=purpose,
            size_bytes=len(data),
            digest=bytes_digest(data),
            created_at=int(self._now()),
        )
        with self._lock:
            self._vault.put(tenant, data)
            return self._named(file)

    @contextmanager
    def draft(self, *, tenant: str) -> Iterator[Draft]:
        """What a file is to hold, written piece by piece: of any size, and nowhere to be seen.

        Raises:
            StorageError: the disk refused.
        """
        draft = self._vault.draft(tenant)
        try:
            yield draft
        finally:
            draft.discard()

    def save_draft(self, name: str, draft: Draft, purpose: str, *, tenant: str) -> StoredFile:
        """Stores what was drafted: the same file as `save` makes of the same bytes.

        Raises:
            StorageError: disk or database refused; nothing was stored.
        """
        draft.finish()
        data = LongPart(draft.size_bytes, draft.pieces())
        file = StoredFile(
            id=content_id("file", (tenant, purpose, name, data)),
            tenant=tenant,
            name=name,
            purpose=purpose,
            size_bytes=draft.size_bytes,
            digest=draft.digest,
            created_at=int(self._now()),
        )
        with self._lock:
            self._vault.keep(tenant, draft)
            return self._named(file)

    def _named(self, file: StoredFile) -> StoredFile:
        """The record of bytes that are stored; the one of before where there is one."""
        with transaction(self._engine) as connection:
            file_store.forget_file(connection, file.id)
            known = file_store.find_file(connection, file.id, file.tenant)
            if known is None:
                file_store.insert_file(connection, file)
        return known or file

    def get(self, file_id: str, *, tenant: str) -> StoredFile:
        """A file's record.

        Raises:
            StoredFileNotFoundError: there is none for this tenant.
        """
        with transaction(self._engine) as connection:
            return file_store.select_file(connection, file_id, tenant)

    def read(self, file_id: str, *, tenant: str) -> bytes:
        """A file's bytes, checked against their digest.

        Raises:
            StoredFileNotFoundError: there is none for this tenant.
            StoredFileDamagedError: the disk lost or changed them.
        """
        file = self.get(file_id, tenant=tenant)
        try:
            return self._vault.get(tenant, file.digest, file_id=file_id)
        except StoredFileDamagedError:
            self.get(file_id, tenant=tenant)  # deleted meanwhile is no damage
            raise

    def list_all(self, *, tenant: str) -> list[StoredFile]:
        """A tenant's files, oldest first."""
        with transaction(self._engine) as connection:
            return file_store.select_files(connection, tenant)

    def list_page(
        self, page: PageQuery, *, tenant: str, purpose: str | None = None
    ) -> Page[StoredFile]:
        """A page of a tenant's files; see `select_page`."""
        with transaction(self._engine) as connection:
            return file_store.select_files_page(connection, tenant, page, purpose=purpose)

    def delete(self, file_id: str, *, tenant: str) -> None:
        """Removes a file, from all collections too.

        Raises:
            StoredFileNotFoundError: there is none for this tenant.
        """
        with self._lock:
            with transaction(self._engine) as connection:
                file_store.mark_deleting(connection, file_id, tenant)
                for collection_id in held_store.collections_of_file(connection, file_id):
                    store.claim(connection, collection_id)
                    held_store.remove_from_collection(connection, collection_id, file_id)
            self._finish_deletions_locked()

    def discard_synced(self, file_ids: Sequence[str], *, tenant: str) -> None:
        """Removes those of the files that `sync` had stored and no collection holds any more."""
        if not file_ids:
            return
        with self._lock:
            with transaction(self._engine) as connection:
                file_store.mark_unheld_deleting(
                    connection, SYNC_PURPOSE, tenant=tenant, file_ids=file_ids
                )
            self._finish_deletions_locked()

    def _discard_unheld(self) -> None:
        """What a crash left between the storing of a synced file and its way into a collection."""
        with self._lock:
            with transaction(self._engine) as connection:
                file_store.mark_unheld_deleting(connection, SYNC_PURPOSE)
            self._finish_deletions_locked()

    def _finish_deletions(self) -> None:
        with self._lock:
            self._finish_deletions_locked()

    def _finish_deletions_locked(self) -> None:
        with transaction(self._engine) as connection:
            deleting = file_store.select_deleting(connection)
        for file in deleting:
            # The file is gone for its owner; what a failing disk keeps is removed at a later try.
            with suppress(StorageError), transaction(self._engine) as connection:
                file_store.forget_file(connection, file.id)
                if not file_store.is_digest_used(connection, file.tenant, file.digest):
                    self._vault.remove(file.tenant, file.digest)
