"""Small writes that are whole or absent, and file locks."""

import contextlib
import fcntl
import os
import secrets
from collections.abc import Callable, Iterator
from pathlib import Path

KV_KEY_BYTES = 32


def private_folder(path: Path) -> Path:
    """Makes a folder that only its owner can enter (0700), with its parents."""
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    return path


def write_whole(path: Path, data: bytes, *, mode: int = 0o600, durable: bool = True) -> None:
    """Replaces a file in one step: a reader, or a crash, sees the old or the new content.

    Args:
        durable: wait for the disk, which can take seconds; needless for what a reboot outdates.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}.{secrets.token_hex(4)}")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            if durable:
                os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def ensure_kv_key(path: Path) -> None:
    """Makes the key of KV at rest, once: 32 random bytes, mode 0600.

    Linked into place, so that of two callers at the same time both use the same key.
    """
    if path.exists():
        return
    private_folder(path.parent)
    candidate = path.with_name(f".{path.name}.{os.getpid()}.{secrets.token_hex(4)}")
    try:
        write_whole(candidate, secrets.token_bytes(KV_KEY_BYTES))
        with contextlib.suppress(FileExistsError):
            path.hardlink_to(candidate)
    finally:
        candidate.unlink(missing_ok=True)


@contextlib.contextmanager
def locked(path: Path, *, on_wait: Callable[[], None] | None = None) -> Iterator[None]:
    """Holds an exclusive lock on a file; the kernel frees it when the process ends, however.

    Args:
        path: made if missing, never removed.
        on_wait: called once if somebody else holds the lock, before waiting for it.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if on_wait is not None:
                on_wait()
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def try_lock(path: Path) -> int | None:
    """A descriptor that holds the lock until it is closed, or None if somebody else does."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    return descriptor
