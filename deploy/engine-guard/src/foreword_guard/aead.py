"""How a KV chunk looks outside memory: one sealed frame, bound to its key. Pure.

    version (1) | nonce (12) | AES-256-GCM ciphertext (n) | tag (16)

The associated data is the object's whole key (model, rank, object group, chunk hash, salt) and the
codec of its plaintext, each field with its length, so a frame that is copied, renamed or replayed
under another key fails like one with a flipped bit. Each cache salt has an encryption key of its
own (salt_keys.py): two tenants never share one. Nonces are random; with 96 bits, 2**32 chunks under
one salt stay within NIST's bound for random nonces (SP 800-38D, 8.3).

Plaintext lengths are public: the chunk size and the model are. Version 1 derived its keys from the
master key; such frames are rejected, and deleted as they are met.
"""

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from foreword_guard.errors import FrameError, KeyFileError

VERSION = 2
NONCE_BYTES = 12
TAG_BYTES = 16
HEADER_BYTES = 1 + NONCE_BYTES
OVERHEAD_BYTES = HEADER_BYTES + TAG_BYTES
MASTER_KEY_BYTES = 32

Buffer = bytes | bytearray | memoryview


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectIdentity:
    """What a stored object is: every field of LMCache's ObjectKey, and how it is written.

    Source: lmcache/v1/distributed/api.py:99 (0.5.6).

    Attributes:
        codec: what made the plaintext of the KV; empty for the KV as it is.
    """

    model_name: str
    kv_rank: int
    object_group_id: int
    chunk_hash: bytes
    cache_salt: str
    codec: str = ""

    def associated_data(self) -> bytes:
        """The identity as bytes; different identities never give equal bytes."""
        fields = (
            self.model_name.encode(),
            str(self.kv_rank).encode(),
            str(self.object_group_id).encode(),
            self.chunk_hash,
            self.cache_salt.encode(),
            self.codec.encode(),
        )
        return b"".join(len(field).to_bytes(4, "big") + field for field in fields)


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
    cipher: AESGCM,
    identity: ObjectIdentity,
    random_bytes: Callable[[int], bytes] = os.urandom,
) -> int:
    """Write the frame of `plaintext` to the start of `target`; returns its length in bytes.

    Args:
        target: writable, at least len(plaintext) + OVERHEAD_BYTES long.
        plaintext: one KV chunk.
        cipher: of the identity's salt.
        identity: bound to the frame.
        random_bytes: gives the nonce.
    """
    nonce = random_bytes(NONCE_BYTES)
    end = HEADER_BYTES + len(plaintext) + TAG_BYTES
    target[0] = VERSION
    target[1:HEADER_BYTES] = nonce
    cipher.encrypt_into(nonce, plaintext, identity.associated_data(), target[HEADER_BYTES:end])
    return end


def open_into(
    target: memoryview, frame: memoryview, *, cipher: AESGCM, identity: ObjectIdentity
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
    try:
        cipher.decrypt_into(
            bytes(frame[1:HEADER_BYTES]),
            frame[HEADER_BYTES:end],
            identity.associated_data(),
            target,
        )
    except InvalidTag as exc:
        raise FrameError("it doesn't authenticate under its key") from exc
