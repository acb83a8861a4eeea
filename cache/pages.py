"""Pages: the unit in which an engine re-uses KV, and our own chained hashes of them.

The hashes are Foreword's; no engine's hashes are compared with them. An engine's events are hashed
again here from the token ids that they carry.
"""

import sys
from array import array
from collections.abc import Sequence
from hashlib import blake2b

DIGEST_BYTES = 16
_PERSON = b"foreword.page.v1"  # at most 16 bytes; another version of the chain gets another name
_TOKEN_BYTES = 4


def page_floor(num_tokens: int, *, page_size: int) -> int:
    """The largest multiple of `page_size` that is not above `num_tokens`, in tokens.

    Raises:
        ValueError: page_size < 1 or num_tokens < 0.
    """
    _check_page_size(page_size)
    if num_tokens < 0:
        raise ValueError(f"num_tokens is {num_tokens}, but must be 0 or more")
    return num_tokens - num_tokens % page_size


def page_hashes(token_ids: Sequence[int], *, page_size: int, salt: bytes = b"") -> list[bytes]:
    """Chained hashes of the full pages of a token sequence.

    The trailing partial page has no hash: an engine never re-uses it. Hash k covers the salt and
    every token up to the end of page k, so one equal hash means that all before it are equal too.

    Args:
        token_ids: whole prompt, length n; each in 0 … 2**32 - 1.
        page_size: tokens per page, >= 1.
        salt: isolates tenants; equal prefixes under different salts never match.

    Returns:
        n // page_size digests of 16 bytes. Two lists share a prefix of length k exactly when the
        sequences share the first k * page_size tokens (and the salt).

    Raises:
        ValueError: page_size < 1, or a token id that does not fit 32 bits.
    """
    full_tokens = page_floor(len(token_ids), page_size=page_size)
    packed = _packed(token_ids, full_tokens)
    step = page_size * _TOKEN_BYTES
    digest = blake2b(salt, digest_size=DIGEST_BYTES, person=_PERSON).digest()
    hashes: list[bytes] = []
    for start in range(0, full_tokens * _TOKEN_BYTES, step):
        page = packed[start : start + step]
        digest = blake2b(digest + page, digest_size=DIGEST_BYTES, person=_PERSON).digest()
        hashes.append(digest)
    return hashes


def _check_page_size(page_size: int) -> None:
    if page_size < 1:
        raise ValueError(f"page_size is {page_size}, but must be 1 or more")


def _packed(token_ids: Sequence[int], num_tokens: int) -> bytes:
    """The first ids as little-endian 32-bit integers, so that hashes agree between machines."""
    try:
        words = array("I", token_ids[:num_tokens])
    except OverflowError as exc:
        raise ValueError("a token id does not fit 32 bits: ids run from 0 to 2**32 - 1") from exc
    if words.itemsize != _TOKEN_BYTES:
        return b"".join(i.to_bytes(_TOKEN_BYTES, "little") for i in words)
    if sys.byteorder == "big":
        words.byteswap()
    return words.tobytes()
