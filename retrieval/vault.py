"""The bytes of uploaded files on disk, each under the digest of its content."""

import hashlib
from pathlib import Path

from retrieval.drafts import Draft, new_digest
from retrieval.durable import PART_SUFFIX, sync_folder, write_atomically
from retrieval.errors import StorageError, StoredFileDamagedError


def bytes_digest(data: bytes) -> str:
    """The digest by which bytes are stored."""
    digest = new_digest()
    digest.update(data)
    return digest.hexdigest()


class Vault:
    """A folder of contents, apart by tenant: one tenant's upload never shares another's bytes.

    Not locked: the caller keeps `put` and `remove` of one content apart.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._remove_parts()

    def put(self, tenant: str, data: bytes) -> str:
        """Stores the bytes durably and returns their digest; again is no work.

        Raises:
            StorageError: the disk refused.
        """
        digest = bytes_digest(data)
        path = self._path(tenant, digest)
        if not _holds(path, digest):
            write_atomically(path, data)
        return digest

    def draft(self, tenant: str) -> Draft:
        """A content that isn't there as a whole yet.

        Raises:
            StorageError: the disk refused.
        """
        return Draft(self._owner_folder(tenant))

    def keep(self, tenant: str, draft: Draft) -> str:
        """Stores what was drafted and finished, as `put` does.

        Raises:
            StorageError: the disk refused.
        """
        path = self._path(tenant, draft.digest)
        if not _holds(path, draft.digest):
            draft.put_at(path)
        return draft.digest

    def get(self, tenant: str, digest: str, *, file_id: str) -> bytes:
        """The bytes.

        Raises:
            StoredFileDamagedError: they are missing or changed.
        """
        try:
            data = self._path(tenant, digest).read_bytes()
        except OSError as exc:
            raise StoredFileDamagedError(file_id, exc.strerror or str(exc)) from exc
        if bytes_digest(data) != digest:
            raise StoredFileDamagedError(file_id, "their digest is another")
        return data

    def remove(self, tenant: str, digest: str) -> None:
        """Removes the bytes durably; absent is no error.

        Raises:
            StorageError: the disk refused.
        """
        path = self._path(tenant, digest)
        try:
            path.unlink(missing_ok=True)
            if path.parent.exists():
                sync_folder(path.parent)
        except OSError as exc:
            where = f"The disk at {str(path.parent)!r}"
            raise StorageError(where, exc.strerror or str(exc)) from exc

    def _path(self, tenant: str, digest: str) -> Path:
        return self._owner_folder(tenant) / digest

    def _owner_folder(self, tenant: str) -> Path:
        # Tenants' names may hold anything; a digest is a safe folder name.
        return self._folder / hashlib.blake2b(tenant.encode(), digest_size=8).hexdigest()

    def _remove_parts(self) -> None:
        """Removes what writes left behind that a crash cut off."""
        for part in sorted(self._folder.glob(f"*/*{PART_SUFFIX}")):
            part.unlink(missing_ok=True)


def _holds(path: Path, digest: str) -> bool:
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return hashlib.file_digest(file, new_digest).hexdigest() == digest
