"""What changes in the cache, and the hashes by which SGLang's KV events name its pages."""

import hashlib
from array import array
from collections.abc import Sequence
from dataclasses import dataclass

_SALT_TAG = b"sglang-cache-salt-v1\0"


@dataclass(frozen=True, slots=True)
class Namespace:
    """Requests share KV only when both are equal; None is the common namespace."""

    salt: str | None = None
    extra_key: str | None = None


@dataclass(frozen=True, slots=True)
class Stored:
    """New pages after the page `parent` (None: at the start), one digest for each."""

    namespace: Namespace
    parent: bytes | None
    digests: tuple[bytes, ...]
    token_ids: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Removed:
    """Pages that were evicted."""

    namespace: Namespace
    digests: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class Cleared:
    """Everything was dropped."""


Change = Stored | Removed | Cleared


def page_digests(
    token_ids: Sequence[int], page_size: int, *, previous: bytes | None, salt: str | None
) -> list[bytes]:
    """Chained SHA-256 of whole pages, as SGLang hashes them for its events.

    The extra key is no part of the chain: pages of two extra keys under one salt hash alike.

    Args:
        token_ids: whole pages; length is a multiple of `page_size`.
        previous: the digest of the page before, None at the start of a prompt.
        salt: seeds the chain at the start of a prompt.

    Source: sglang 0.5.23 mem_cache/utils.py compute_node_event_hash_values; the byte layout
    (little-endian 32-bit ids after the previous digest) was found by comparing with real events.
    """
    if previous is None:
        seed = hashlib.sha256(_SALT_TAG + salt.encode()).digest() if salt is not None else b""
    else:
        seed = previous
    digests: list[bytes] = []
    for start in range(0, len(token_ids), page_size):
        page = array("I", token_ids[start : start + page_size])
        seed = hashlib.sha256(seed + page.tobytes()).digest()
        digests.append(seed)
    return digests


def block_hash(digest: bytes) -> int:
    """The first 8 bytes of a digest as a signed integer: what an event carries.

    Source: sglang 0.5.23 mem_cache/utils.py hash_str_to_int64.
    """
    return int.from_bytes(digest[:8], "big", signed=True)
