"""One random AES-256 key for each cache salt, which can be destroyed. No LMCache in here.

A key is made when something is first stored under its salt, and kept as a small file in a folder
(mode 0700) beside the master key:

    <name>.key    version (1) | nonce (12) | AES-256-GCM of the key under the master key | tag (16)
    <name>.gone   empty: the salt was destroyed, and stays so

`name` is HMAC-SHA256 of the salt, so the folder tells nobody which tenants there are. Both secrets
come from the master key by HKDF-SHA256, the salt is associated data. Destroying writes `.gone`,
overwrites and removes `.key`, each waiting for the disk: what is on disks and in Redis under that
salt can't be read any more, after a restart neither. (Somebody who has both the master key and a
copy of the folder from before can read it still: back up neither without the other's care.)
"""

import contextlib
import hmac
import logging
import os
import secrets
import threading
from collections import OrderedDict
from pathlib import Path

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from foreword_guard.errors import FrameError, SaltDestroyedError, SaltKeyError

logger = logging.getLogger("foreword_guard")

KEY_BYTES = 32
_VERSION = 1
_NONCE_BYTES = 12
_FILE_BYTES = 1 + _NONCE_BYTES + KEY_BYTES + 16
_REMEMBERED = 4096


def salt_folder(key_file: Path) -> Path:
    """Where the salts' keys are by default: `kv.key` has its `kv.keys` beside it."""
    return key_file.with_name(f"{key_file.stem}.keys")


class SaltKeys:
    """The salts' ciphers. Thread-safe; several processes may share the folder.

    Args:
        master_key: 32 bytes.
        folder: made with mode 0700 when it is needed.
    """

    def __init__(self, master_key: bytes, folder: Path) -> None:
        self._folder = folder
        self._seal = AESGCM(_derived(master_key, b"foreword salt keys: seal"))
        self._name_key = _derived(master_key, b"foreword salt keys: names")
        self._lock = threading.Lock()
        self._ciphers: OrderedDict[str, AESGCM] = OrderedDict()
        self._gone = {path.stem for path in folder.glob("*.gone")} if folder.is_dir() else set()
        self._finish_destroying()

    def for_sealing(self, salt: str) -> AESGCM:
        """The salt's cipher; its key is made and written down if there is none yet.

        Raises:
            SaltDestroyedError: the salt was destroyed.
            SaltKeyError: the key can't be read or written now.
        """
        return self._cipher(salt, make=True)

    def for_opening(self, salt: str) -> AESGCM:
        """The salt's cipher.

        Raises:
            SaltDestroyedError: the salt was destroyed.
            FrameError: the salt has no key, so nothing can have been sealed under it.
            SaltKeyError: the key can't be read now.
        """
        return self._cipher(salt, make=False)

    def is_destroyed(self, salt: str) -> bool:
        """Whether the salt was destroyed; cheap enough for every request."""
        return bool(self._gone) and self._name(salt) in self._gone

    def destroy(self, salt: str) -> None:
        """Make everything that was sealed under the salt unreadable, for good.

        Raises:
            SaltKeyError: the disk didn't take it. Nothing more is stored or served under the salt
                by this process, but it may be readable again after a restart: try again.
        """
        name = self._name(salt)
        with self._lock:
            self._gone.add(name)
            self._ciphers.pop(salt, None)
            path = self._folder / f"{name}.key"
            try:
                self._make_folder()
                _write_new(path.with_suffix(".gone"), b"")
                _overwrite(path)
                path.unlink(missing_ok=True)
                _sync_folder(self._folder)
            except OSError as exc:
                raise SaltKeyError(path, exc.strerror or str(exc)) from exc

    def counts(self) -> tuple[int, int]:
        """How many keys there are, and how many salts were destroyed."""
        if not self._folder.is_dir():
            return 0, len(self._gone)
        return sum(1 for _ in self._folder.glob("*.key")), len(self._gone)

    def _cipher(self, salt: str, *, make: bool) -> AESGCM:
        with self._lock:
            cipher = self._ciphers.get(salt)
            if cipher is None:
                cipher = self._ciphers[salt] = AESGCM(self._key(salt, make=make))
                while len(self._ciphers) > _REMEMBERED:
                    self._ciphers.popitem(last=False)
            else:
                self._ciphers.move_to_end(salt)
            return cipher

    def _key(self, salt: str, *, make: bool) -> bytes:
        name = self._name(salt)
        path = self._folder / f"{name}.key"
        try:
            if name in self._gone or path.with_suffix(".gone").exists():
                self._gone.add(name)
                raise SaltDestroyedError
            key = self._read_key(path, salt)
            if key is None and make:
                self._write_key(path, salt)
                key = self._read_key(path, salt)
        except OSError as exc:
            raise SaltKeyError(path, exc.strerror or str(exc)) from exc
        if key is None:
            raise FrameError("its salt has no key")
        return key

    def _read_key(self, path: Path, salt: str) -> bytes | None:
        """The key in a file; a damaged file is nobody's key any more, and is removed."""
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

    def _write_key(self, path: Path, salt: str) -> None:
        """Of several writers at the same time the first one's key is everybody's."""
        self._make_folder()
        nonce = secrets.token_bytes(_NONCE_BYTES)
        sealed = self._seal.encrypt(nonce, secrets.token_bytes(KEY_BYTES), salt.encode())
        _write_new(path, bytes([_VERSION]) + nonce + sealed)
        _sync_folder(self._folder)

    def _finish_destroying(self) -> None:
        """Keys whose destruction was interrupted by a crash."""
        for name in self._gone:
            path = self._folder / f"{name}.key"
            with contextlib.suppress(OSError):
                _overwrite(path)
                path.unlink(missing_ok=True)

    def _make_folder(self) -> None:
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)

    def _name(self, salt: str) -> str:
        return hmac.digest(self._name_key, salt.encode(), "sha256").hex()


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
