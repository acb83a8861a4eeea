"""One random AES-256 key for each cache salt, which can be destroyed. No LMCache in here.

A key is made when something is first stored under its salt, and kept as a small file
(salt_key_files.py). Once it is destroyed, what is on disks and in Redis under that salt can't be
read any more, after a restart neither. (Somebody who has both the master key and a copy of the
folder from before can read it still: back up neither without the other's care.)

The disk is never waited for under a lock, and never for ever (disk_work.py): a load waits for a
key no longer than it may wait for anything. A store waits for as long as a busy machine takes to
write a key down for good, since nobody waits for the store (sealing.py). A salt whose key can't be
had in time is left in RAM, and the other salts go on.
"""

import re
import threading
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from foreword_guard.disk_work import DiskWork
from foreword_guard.errors import FrameError, SaltDestroyedError, SaltKeyError
from foreword_guard.salt_key_files import SaltKeyFiles

Result = TypeVar("Result")

_REMEMBERED = 4096
# Less than a load's deadline; a disk that is well takes a hundredth of it.
_READ_WAIT_S = 0.25
# A new key is synced twice, behind whatever else the disk has to write, by a thread that needs a
# core: without one for it, on a machine with other work, that took up to 3 s.
_MAKE_WAIT_S = 30.0
# Whoever destroys a key must know that it is gone, and waits for longer.
_DESTROY_WAIT_S = 1.5
_COUNT, _FORGET = "count", "forget"
# As Foreword's gateway makes them (app/salts.py), and its probes.
_SALT = re.compile("(foreword-probe-)?[0-9a-f]{32}")


def is_salt(name: str) -> bool:
    """Whether this may be a salt that something is stored under.

    The empty one is not: under it lies all KV that was stored without a salt.
    """
    return _SALT.fullmatch(name) is not None


def salt_folder(key_file: Path) -> Path:
    """Where the salts' keys are by default: `kv.key` has its `kv.keys` beside it."""
    return key_file.with_name(f"{key_file.stem}.keys")


class SaltKeys:
    """The salts' ciphers. Thread-safe; several processes may share the folder.

    Args:
        master_key: 32 bytes.
        folder: made with mode 0700 when it is needed.
        wait_s: longest wait for the disk when a key is read to open with.
        make_wait_s: longest wait for it when a key to seal with is read or made.
    """

    def __init__(
        self,
        master_key: bytes,
        folder: Path,
        *,
        wait_s: float = _READ_WAIT_S,
        make_wait_s: float = _MAKE_WAIT_S,
        files: SaltKeyFiles | None = None,
    ) -> None:
        self._files = files or SaltKeyFiles(master_key, folder)
        # Apart: the one that is late says nothing about the others, which may wait for longer, or
        # have what they read in the page cache.
        self._reading, self._making, self._destroying = DiskWork(), DiskWork(), DiskWork()
        self._wait_s = wait_s
        self._make_wait_s = make_wait_s
        self._lock = threading.Lock()
        self._ciphers: OrderedDict[str, AESGCM] = OrderedDict()
        self._gone = self._files.gone()
        self._counted = 0
        self._finish_destroying()

    def for_sealing(self, salt: str) -> AESGCM:
        """The salt's cipher; its key is made and written down if there is none yet.

        May take long where `has` is false.

        Raises:
            SaltDestroyedError: the salt was destroyed.
            SaltKeyError: the key can't be read or written now, or not in time.
        """
        return self._cipher(salt, self._making, make=True, wait_s=self._make_wait_s)

    def for_opening(self, salt: str) -> AESGCM:
        """The salt's cipher.

        Raises:
            SaltDestroyedError: the salt was destroyed.
            FrameError: the salt has no key, so nothing can have been sealed under it.
            SaltKeyError: the key can't be read now, or not in time.
        """
        return self._cipher(salt, self._reading, make=False, wait_s=self._wait_s)

    def has(self, salt: str) -> bool:
        """Whether the salt's cipher is at hand, without the disk."""
        with self._lock:
            return salt in self._ciphers

    def is_destroyed(self, salt: str) -> bool:
        """Whether the salt was destroyed; cheap enough for every request."""
        return bool(self._gone) and self._files.name(salt) in self._gone

    def destroy(self, salt: str) -> None:
        """Make everything that was sealed under the salt unreadable, for good.

        Raises:
            SaltKeyError: the disk didn't take it, or not in time. Nothing more is stored or served
                under the salt by this process, but it may be readable again after a restart: try
                again.
        """
        name = self._files.name(salt)
        with self._lock:
            self._gone.add(name)
            self._ciphers.pop(salt, None)
        self._do(self._destroying, name, lambda: self._files.destroy(name), _DESTROY_WAIT_S)
        self._forget_old()

    def counts(self) -> tuple[int, int]:
        """How many keys there are, and how many salts were destroyed lately.

        While the disk doesn't answer, as it was last.
        """
        with suppress(OSError):  # TimeoutError is one
            self._counted = self._reading.result(_COUNT, self._files.count, wait_s=self._wait_s)
        return self._counted, len(self._gone)

    def _cipher(self, salt: str, disk: DiskWork, *, make: bool, wait_s: float) -> AESGCM:
        with self._lock:
            cipher = self._ciphers.get(salt)
            if cipher is not None:
                self._ciphers.move_to_end(salt)
                return cipher
        name = self._files.name(salt)
        key = self._do(disk, name, lambda: self._key(salt, name, make), wait_s)
        if key is None:
            raise FrameError("its salt has no key")
        return self._remember(salt, name, AESGCM(key))

    def _remember(self, salt: str, name: str, cipher: AESGCM) -> AESGCM:
        with self._lock:
            if name in self._gone:  # it was destroyed while the key was read
                raise SaltDestroyedError
            self._ciphers[salt] = cipher
            while len(self._ciphers) > _REMEMBERED:
                self._ciphers.popitem(last=False)
        return cipher

    def _key(self, salt: str, name: str, make: bool) -> bytes | None:
        """Read or made, in a thread of its own."""
        self._raise_if_gone(name)
        key = self._files.read(salt)
        if key is None and make:
            self._files.make(salt)
            if self._files.is_gone(name):  # meanwhile
                self._files.remove(name)
            self._raise_if_gone(name)
            key = self._files.read(salt)
        return key

    def _raise_if_gone(self, name: str) -> None:
        if name not in self._gone and self._files.is_gone(name):
            with self._lock:
                self._gone.add(name)
        if name in self._gone:
            raise SaltDestroyedError

    def _do(self, disk: DiskWork, name: str, work: Callable[[], Result], wait_s: float) -> Result:
        try:
            return disk.result(name, work, wait_s=wait_s)
        except TimeoutError as exc:
            raise SaltKeyError(self._files.path(name), "the disk doesn't answer in time") from exc
        except OSError as exc:
            raise SaltKeyError(self._files.path(name), exc.strerror or str(exc)) from exc

    def _forget_old(self) -> None:
        """A hanging disk, or one that is read only, keeps its marks for now."""
        with suppress(OSError):
            forgotten = self._destroying.result(
                _FORGET, self._files.forget_old, wait_s=self._wait_s
            )
            with self._lock:
                self._gone -= forgotten

    def _finish_destroying(self) -> None:
        """Keys whose destruction was interrupted by a crash."""
        for name in self._gone:
            with suppress(OSError):
                self._files.remove(name)
        with suppress(OSError):
            self._gone -= self._files.forget_old()
