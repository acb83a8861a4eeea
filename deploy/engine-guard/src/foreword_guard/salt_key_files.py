"""The salts' keys as files in a folder (mode 0700) beside the master key. Waits for the disk.

    <name>.key    version (1) | nonce (12) | AES-256-GCM of the key under the master key | tag (16)
    <name>.gone   empty: the salt was destroyed, and nothing is stored under it for a while

`name` is HMAC-SHA256 of the salt, so the folder tells nobody which tenants there are. Both secrets
come from the master key by HKDF-SHA256, the salt is associated data. Destroying writes `.gone`,
overwrites and removes `.key`, each waiting for the disk.

What was sealed can't be read for want of the key; `.gone` is there for what comes after: requests
under way that would store anew, and a crash before the key is removed. So it goes once the key has,
and every request that knew the salt has ended long since (`KEPT_S`).
"""

import contextlib
import hmac
import logging
import os
import secrets
import time
from pathlib import Path

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

logger = logging.getLogger("foreword_guard")

KEY_BYTES = 32
KEPT_S = 7 * 24 * 3600.0
_VERSION = 1
_NONCE_BYTES = 12
_FILE_BYTES = 1 + _NONCE_BYTES + KEY_BYTES + 16


class SaltKeyFiles:
    """One folder of keys; several processes may share it.

    All methods but `name` raise OSError where the disk does.
    """

    def __init__(self, master_key: bytes, folder: Path) -> None:
        self.folder = folder
        self._seal = AESGCM(_derived(master_key, b"foreword salt keys: seal"))
        self._name_key = _derived(master_key, b"foreword salt keys: names")

    def name(self, salt: str) -> str:
        """What the salt's files are called."""
        return hmac.digest(self._name_key, salt.encode(), "sha256").hex()

    def path(self, name: str) -> Path:
        """Where a key is, or would be."""
        return self.folder / f"{name}.key"

    def is_gone(self, name: str) -> bool:
        """Whether the salt was destroyed."""
        return self.path(name).with_suffix(".gone").exists()

    def gone(self) -> set[str]:
        """The names of the destroyed salts."""
        if not self.folder.is_dir():
            return set()
        return {path.stem for path in self.folder.glob("*.gone")}

    def count(self) -> int:
        """How many keys there are."""
        return sum(1 for _ in self.folder.glob("*.key")) if self.folder.is_dir() else 0

    def read(self, salt: str) -> bytes | None:
        """The salt's key; a damaged file is nobody's key any more, and is removed."""
        path = self.path(self.name(salt))
        try:
            sealed = path.read_bytes()
        except FileNotFoundError:
            return None
        if len(sealed) == _FILE_BYTES and sealed[0] == _VERSION:
            nonce, body = sealed[1 : 1 + _NONCE_BYTES], sealed[1 + _NONCE_BYTES :]
            with contextlib.suppress(InvalidTag):
                return self._seal.decrypt(nonce, body, salt.encode())
        logger.error("foreword_guard: %s is damaged; its salt starts anew", path)
        path.unlink()
        return None

    def make(self, salt: str) -> None:
        """Write down a new key; of several writers the first one's key is everybody's."""
        self._make_folder()
        nonce = secrets.token_bytes(_NONCE_BYTES)
        sealed = self._seal.encrypt(nonce, secrets.token_bytes(KEY_BYTES), salt.encode())
        _write_new(self.path(self.name(salt)), bytes([_VERSION]) + nonce + sealed)
        _sync_folder(self.folder)

    def destroy(self, name: str) -> None:
        """Note that the salt is gone, and remove its key."""
        self._make_folder()
        _write_new(self.path(name).with_suffix(".gone"), b"")
        self.remove(name)
        _sync_folder(self.folder)

    def remove(self, name: str) -> None:
        """Overwrite and remove a key, if there is one."""
        path = self.path(name)
        _overwrite(path)
        path.unlink(missing_ok=True)

    def forget_old(self, now_s: float | None = None) -> set[str]:
        """Remove the marks that nobody needs any more; returns their names."""
        until = (time.time() if now_s is None else now_s) - KEPT_S
        forgotten = set()
        for name in self.gone():
            mark = self.path(name).with_suffix(".gone")
            with contextlib.suppress(FileNotFoundError):
                if mark.stat().st_mtime < until and not self.path(name).exists():
                    mark.unlink()
                    forgotten.add(name)
        return forgotten

    def _make_folder(self) -> None:
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)


def _derived(master_key: bytes, purpose: bytes) -> bytes:
    return HKDF(SHA256(), length=32, salt=None, info=purpose).derive(master_key)


def _write_new(path: Path, data: bytes) -> None:
    """A whole file or none; one that is there already stays."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.{secrets.token_hex(4)}")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        with contextlib.suppress(FileExistsError):
            path.hardlink_to(temporary)
    finally:
        temporary.unlink(missing_ok=True)


def _overwrite(path: Path) -> None:
    """Zeros over a file's bytes, where the file system writes in place."""
    with contextlib.suppress(FileNotFoundError), path.open("r+b") as file:
        file.write(bytes(path.stat().st_size))
        file.flush()
        os.fsync(file.fileno())


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
