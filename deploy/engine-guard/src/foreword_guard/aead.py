"""How a KV chunk looks outside memory: one sealed frame, bound to its key. Pure.

    version (1) | nonce (12) | AES-256-GCM ciphertext (n) | tag (16)

The associated data is the object's whole key (model, rank, object group, chunk hash, salt), each
field with its length, so a frame that is copied, renamed or replayed under another key fails
like one with a flipped bit. The encryption key is derived from the master key and the object's
cache salt with HKDF-SHA256: two tenants never share one. Nonces are random; with 96 bits, 2**32
chunks under one salt stay within NIST's bound for random nonces (SP 800-38D, 8.3).

Plaintext lengths are public: the chunk size and the model are.
"""

import os
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from foreword_guard.errors import FrameError, KeyFileError

VERSION = 1
NONCE_BYTES = 12
TAG_BYTES = 16
HEADER_BYTES = 1 + NONCE_BYTES
OVERHEAD_BYTES = HEADER_BYTES + TAG_BYTES
MASTER_KEY_BYTES = 32
_DERIVATION = b"foreword kv at rest v1\x00"

Buffer = bytes | bytearray | memoryview


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectIdentity:
    """What a stored object is: every field of LMCache's ObjectKey.

    Source: lmcache/v1/distributed/api.py:99 (0.5.6).
    """

    model_name: str
    kv_rank: int
    object_group_id: int
    chunk_hash: bytes
    cache_salt: str

    def associated_data(self) -> bytes:
        """The identity as bytes; different identities never give equal bytes."""
        fields = (
            self.model_name.encode(),
            str(self.kv_rank).encode(),
            str(self.object_group_id).encode(),
            self.chunk_hash,
            self.cache_salt.encode(),
        )
        return b"".join(len(field).to_bytes(4, "big") + field for field in fields)


class SaltedKeys:
    """One AES-256 key per cache salt, derived from the master key. Thread-safe."""

    def __init__(self, master_key: bytes) -> None:
        self._master_key = master_key
        self._ciphers: dict[str, AESGCM] = {}
        self._lock = threading.Lock()

    def cipher(self, cache_salt: str) -> AESGCM:
        """The cipher for one salt; the empty salt has its own too."""
        with self._lock:
            cipher = self._ciphers.get(cache_salt)
            if cipher is None:
                info = _DERIVATION + cache_salt.encode()
                key = HKDF(SHA256(), length=32, salt=None, info=info).derive(self._master_key)
                cipher = self._ciphers[cache_salt] = AESGCM(key)
            return cipher


def read_master_key(path: Path | None) -> bytes:
    """The 32 bytes of the key file.

    Raises:
        KeyFileError: no file named, unreadable, wrong length, or readable by others.
    """
    if path is None:
        raise KeyFileError(None, "")
    try:
        mode = path.stat().st_mode
        key = path.read_bytes()
    except OSError as exc:
        raise KeyFileError(path, f"can't be read ({exc.strerror})") from exc
    if mode & 0o077:
        raise KeyFileError(path, "can be read by other users (chmod 600 it)")
    if len(key) != MASTER_KEY_BYTES:
        raise KeyFileError(path, f"has {len(key)} bytes")
    return key


def seal_into(
    target: memoryview,
    plaintext: Buffer,
    *,
    keys: SaltedKeys,
    identity: ObjectIdentity,
    random_bytes: Callable[[int], bytes] = os.urandom,
) -> int:
    """Write the frame of `plaintext` to the start of `target`; returns its length in bytes.

    Args:
        target: writable, at least len(plaintext) + OVERHEAD_BYTES long.
        plaintext: one KV chunk.
        keys: derives the key for the identity's salt.
        identity: bound to the frame.
        random_bytes: gives the nonce.
    """
    nonce = random_bytes(NONCE_BYTES)
    end = HEADER_BYTES + len(plaintext) + TAG_BYTES
    target[0] = VERSION
    target[1:HEADER_BYTES] = nonce
    cipher = keys.cipher(identity.cache_salt)
    cipher.encrypt_into(nonce, plaintext, identity.associated_data(), target[HEADER_BYTES:end])
    return end


def open_into(
    target: memoryview, frame: memoryview, *, keys: SaltedKeys, identity: ObjectIdentity
) -> None:
    """Write the chunk in `frame` to `target`, which has exactly the chunk's length.

    Bytes after the frame are ignored: L1 buffers are padded. On failure `target` holds nothing
    that may be used.

    Raises:
        FrameError: too short, unknown version, altered, or sealed under another identity.
    """
    end = HEADER_BYTES + len(target) + TAG_BYTES
    if len(frame) < end:
        raise FrameError(f"{len(frame)} bytes where {end} were stored")
    if frame[0] != VERSION:
        raise FrameError(f"frame version {frame[0]}, expected {VERSION}")
    cipher = keys.cipher(identity.cache_salt)
    try:
        cipher.decrypt_into(
            bytes(frame[1:HEADER_BYTES]),
            frame[HEADER_BYTES:end],
            identity.associated_data(),
            target,
        )
    except InvalidTag as exc:
        raise FrameError("it doesn't authenticate under its key") from exc
