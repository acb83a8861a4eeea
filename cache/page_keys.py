"""Keys of pages: for each page of a prompt 64 keyed bits that say which prefix ends with it.

A key covers every token up to the end of its page, so one equal key stands for all the pages before
it, and the longest prefix that two prompts share is found by bisection. Keys are good within one
process: they are never stored, sent or shown. `cache.pages` has hashes that last.
"""

import hashlib
import secrets
from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

KEY_BYTES = 8
_FIRST_FACTORS = 8192

_Words: TypeAlias = npt.NDArray[np.uint64]


@dataclass(frozen=True, slots=True)
class PageKeys:
    """The keys of a prompt's whole pages, in order.

    `packed` holds 8 bytes a page; only their equality means anything.
    """

    packed: bytes = b""

    def __len__(self) -> int:
        """Whole pages."""
        return len(self.packed) // KEY_BYTES

    def prefix(self, pages: int) -> "PageKeys":
        """The keys of the first `pages` pages, or all where there are fewer."""
        return PageKeys(self.packed[: pages * KEY_BYTES])

    def key(self, page: int) -> bytes:
        """The key of one page, counted from 0."""
        return self.packed[page * KEY_BYTES : (page + 1) * KEY_BYTES]

    def shared(self, other: "PageKeys") -> int:
        """Leading pages that both have."""
        return shared_pages(self.packed, 0, other.packed, 0)


def shared_pages(one: bytes, at_page: int, other: bytes, at_other: int) -> int:
    """How many pages `one` from page `at_page` on shares with `other` from page `at_other` on.

    Both are packed keys whose chains reach back to the start of a prompt: so where page k is the
    same, all before it are.
    """
    start, start_other = at_page * KEY_BYTES, at_other * KEY_BYTES
    low, high = 0, min(len(one) - start, len(other) - start_other) // KEY_BYTES
    if _same(one, start, other, start_other, high):
        return high
    while low < high:
        middle = (low + high + 1) // 2
        if _same(one, start, other, start_other, middle):
            low = middle
        else:
            high = middle - 1
    return low


def _same(one: bytes, start: int, other: bytes, start_other: int, pages: int) -> bool:
    """Whether the page with number `pages`, counted from 1, has one key in both."""
    end, end_other = start + pages * KEY_BYTES, start_other + pages * KEY_BYTES
    return pages <= 0 or one[end - KEY_BYTES : end] == other[end_other - KEY_BYTES : end_other]


class PageKeyMaker:
    """Makes chained keys, all pages of a prompt at once.

    A key is the sum, modulo 2**64, of every token id so far times a secret 64-bit factor of its
    place. Two different prefixes of equal length get one key with odds of 2**-64 where any two ids
    in the same place differ by an odd number, and never above 2**-47 for ids below 2**18, however
    they are chosen by somebody who doesn't know the secret (2**-64 times the largest power of two
    that divides all differences). Among a million pages that share all but themselves, the odds
    that any two meet are about 1 in 30 million. Such a match would make the accounting of a request
    wrong, never its answer: engines don't see keys.
    """

    def __init__(self, *, page_tokens: int, key: bytes = b"") -> None:
        """`key` is the secret; without one a random one is made.

        Raises:
            ValueError: page_tokens < 1.
        """
        if page_tokens < 1:
            raise ValueError(f"page_tokens is {page_tokens}, but must be 1 or more")
        self.page_tokens = page_tokens
        self._key = key or secrets.token_bytes(32)
        self._factors = self._secret_words(_FIRST_FACTORS)

    def keys(self, token_ids: Sequence[int] | bytes) -> PageKeys:
        """The keys of a prompt's whole pages; the trailing partial page has none.

        `bytes` are ids of 32 bits each, in this machine's byte order, as in
        `TokenizedPrompt.packed`: they, and an `array("I")`, are read in place. Others are packed
        first, which takes several times as long as making the keys.

        Raises:
            ValueError: a token id doesn't fit 32 bits.
        """
        return PageKeys(self.after(b"", 0, token_ids))

    def after(self, key: bytes, page: int, token_ids: Sequence[int] | bytes) -> bytes:
        """Packed keys of the pages that continue a prefix of `page` pages that ends with `key`.

        Raises:
            ValueError: a token id doesn't fit 32 bits.
        """
        packed = token_ids if isinstance(token_ids, bytes) else _packed(token_ids)
        ids = np.frombuffer(packed, dtype=np.uint32)
        pages = len(ids) // self.page_tokens
        if pages == 0:
            return b""
        shape = (pages, self.page_tokens)
        words = ids[: pages * self.page_tokens].astype(np.uint64).reshape(shape)
        start = page * self.page_tokens
        factors = self._factors_between(start, start + words.size).reshape(shape)
        chain = np.vecdot(words, factors).cumsum()
        if key:
            chain += np.frombuffer(key, dtype=np.uint64)
        packed_keys: bytes = chain.tobytes()
        return packed_keys

    def _factors_between(self, start: int, stop: int) -> _Words:
        if stop > len(self._factors):
            self._factors = self._secret_words(max(stop, 2 * len(self._factors)))
        return self._factors[start:stop]

    def _secret_words(self, count: int) -> _Words:
        """The first `count` words of a stream that only the secret determines."""
        stream = hashlib.shake_256(self._key).digest(count * KEY_BYTES)
        return np.frombuffer(stream, dtype=np.uint64)


def _packed(token_ids: Sequence[int]) -> "array[int]":
    if isinstance(token_ids, array) and token_ids.typecode == "I":
        return token_ids
    try:
        return array("I", token_ids)
    except OverflowError as exc:
        raise ValueError("a token id does not fit 32 bits: ids run from 0 to 2**32 - 1") from exc
