"""Bytes that are on the disk when the call returns, whole or not at all."""

import os
import secrets
from pathlib import Path

from retrieval.errors import StorageError

PART_SUFFIX = ".part"


def write_atomically(path: Path, data: bytes) -> None:
    """Writes a file durably: it has these bytes after a crash, or those of before.

    Raises:
        StorageError: the disk refused; the target is as it was.
    """
    part = path.with_name(f"{path.name}.{secrets.token_hex(6)}{PART_SUFFIX}")
    try:
        make_folders(path.parent)
        try:
            _write_synced(part, data)
            part.replace(path)
        except OSError:
            part.unlink(missing_ok=True)
            raise
        sync_folder(path.parent)
    except OSError as exc:
        raise StorageError(f"The disk at {str(path.parent)!r}", exc.strerror or str(exc)) from exc


def make_folders(folder: Path) -> None:
    """The folder and those above it, each durable in its parent; readable by the owner only."""
    missing = [f for f in (folder, *folder.parents) if not f.exists()]
    for each in reversed(missing):
        each.mkdir(mode=0o700, exist_ok=True)
        sync_folder(each.parent)


def sync_folder(folder: Path) -> None:
    """Makes the names in a folder durable; a file's own fsync doesn't."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _write_synced(path: Path, data: bytes) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
