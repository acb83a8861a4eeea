"""`Draft`: a content that is written piece by piece, durable once it is finished."""

import hashlib
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from retrieval.durable import PART_SUFFIX, make_folders, sync_folder
from retrieval.errors import StorageError

_PIECE_BYTES = 2**18


def new_digest() -> "hashlib.blake2b":
    """Of the kind by which bytes are stored."""
    return hashlib.blake2b(digest_size=20)


class Draft:
    """Nobody sees it before it is put in its place, and nothing of it is left once it is discarded.

    All methods raise StorageError where the disk refuses.

    Attributes:
        size_bytes: of what was written so far.
    """

    def __init__(self, folder: Path) -> None:
        self._path = folder / f"{secrets.token_hex(16)}{PART_SUFFIX}"
        self._digest = new_digest()
        self.size_bytes = 0
        with self._on_disk():
            make_folders(folder)
            descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            self._file = os.fdopen(descriptor, "wb")

    @property
    def digest(self) -> str:
        """Of what was written so far."""
        return self._digest.hexdigest()

    def write(self, piece: bytes) -> None:
        """Write what comes next."""
        with self._on_disk():
            self._file.write(piece)
        self._digest.update(piece)
        self.size_bytes += len(piece)

    def finish(self) -> None:
        """It is whole, and on the disk."""
        with self._on_disk():
            self._file.flush()
            os.fsync(self._file.fileno())
            self._file.close()

    def pieces(self) -> Iterator[bytes]:
        """Of what is finished, from the beginning."""
        with self._on_disk(), self._path.open("rb") as file:
            while piece := file.read(_PIECE_BYTES):
                yield piece

    def put_at(self, path: Path) -> None:
        """Give it its place, in the same folder; what was there before is no more."""
        with self._on_disk():
            self._path.replace(path)
            sync_folder(path.parent)

    def discard(self) -> None:
        """Leave nothing of it but what was put in its place."""
        with self._on_disk():
            try:
                self._file.close()  # what a full disk didn't take is tried once more
            finally:
                self._path.unlink(missing_ok=True)

    @contextmanager
    def _on_disk(self) -> Iterator[None]:
        try:
            yield
        except OSError as exc:
            where = f"The disk at {str(self._path.parent)!r}"
            raise StorageError(where, exc.strerror or str(exc)) from exc
