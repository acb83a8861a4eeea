"""Keys of pages: for each page of a prompt 64 keyed bits that say which prefix ends with it.

A key covers every token up to the end of its page, so one equal key stands for all the pages before
it, and the longest prefix that two prompts share is found by bisection. Makers with one secret make
equal keys, in any process on machines of one byte order. Keys are sums: whoever knows some prompts
and their keys can work out the secret, so they are never stored, sent or shown unencrypted.
`cache.pages` has hashes that last.
"""

import hashlib
import secrets
import sys
from array import array
from collections.abc import Sequence
from itertools import accumulate
from operator import mul
from typing import TypeAlias

import msgspec
import numpy as np
import numpy.typing as npt

KEY_BYTES = 8
_ID_BYTES = 4
_FIRST_FACTORS = 8192
_FEW_TOKENS = 96
_WORD = (1 << 64) - 1
# Smaller pages are as soon added up as looked up.
_LEAST_NOTED = 8
_NOTED_PAGES = 4096

_Words: TypeAlias = npt.NDArray[np.uint64]


class PageKeys(msgspec.Struct, frozen=True, gc=False):
    """The keys of a prompt's whole pages, in order; never changed.

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
        self._page_bytes = page_tokens * _ID_BYTES
        self._factors = self._secret_pages(_FIRST_FACTORS // page_tokens + 1)
        # A page's key by the one before it and its tokens.
        self._latest: dict[bytes, bytes] = {}

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
        tokens = len(packed) if isinstance(packed, array) else len(packed) // _ID_BYTES
        pages = tokens // self.page_tokens
        if pages == 0:
            return b""
        if tokens > _FEW_TOKENS:
            return self._after_many(key, page, packed, pages)
        # Without numpy, whose calls take ten times as long when they come singly.
        size, stop = self.page_tokens, page + pages
        ids = packed if isinstance(packed, array) else array("I", packed)
        if stop > len(self._factors):
            self._factors_of(page, stop)  # they are all there from now on
        products = map(mul, ids, self._words[page * size : stop * size])
        sums = list(accumulate(products, initial=int.from_bytes(key, sys.byteorder)))
        found = array("Q")
        for total in sums[size::size]:
            found.append(total & _WORD)
        made = found.tobytes()
        if size >= _LEAST_NOTED:
            latest, first, length = self._latest, 0, self._page_bytes
            if len(latest) >= _NOTED_PAGES:
                latest.clear()
            whole = packed if isinstance(packed, bytes) else packed.tobytes()
            for at in range(0, len(made), KEY_BYTES):
                known_by = key + whole[first : first + length]
                key = latest[known_by] = made[at : at + KEY_BYTES]
                first += length
        return made

    def noted(self, key: bytes, page: int, token_ids: Sequence[int]) -> bytes:
        """The same as `after`, sooner where these pages' keys were made lately.

        Not for what a client waits for: how long it takes tells whether somebody sent them.
        """
        size, latest = self._page_bytes, self._latest
        packed = _packed(token_ids).tobytes()
        found, last = [], key
        for start in range(0, len(packed) - size + 1, size):
            known = latest.get(last + packed[start : start + size])
            if known is None:
                return self.after(key, page, packed)
            found.append(known)
            last = known
        return b"".join(found)

    def _after_many(self, key: bytes, page: int, packed: "bytes | array[int]", pages: int) -> bytes:
        ids = np.frombuffer(packed, dtype=np.uint32)
        words = ids[: pages * self.page_tokens].reshape(pages, self.page_tokens)
        chain = np.vecdot(words, self._factors_of(page, page + pages)).cumsum()
        if key:
            chain += np.frombuffer(key, dtype=np.uint64)
        packed_keys: bytes = chain.tobytes()
        return packed_keys

    def extended(self, keys: PageKeys, token_ids: bytes) -> PageKeys:
        """The keys of a longer prompt, packed, whose first whole pages are those of `keys`."""
        known = keys.packed
        page = len(known) // KEY_BYTES
        more = self.after(known[-KEY_BYTES:], page, token_ids[page * self._page_bytes :])
        return PageKeys(known + more) if more else keys

    def _factors_of(self, page: int, stop: int) -> _Words:
        """The factors of some pages, shape (pages, tokens of a page)."""
        if stop > len(self._factors):
            self._factors = self._secret_pages(max(stop, 2 * len(self._factors)))
        return self._factors[page:stop]

    def _secret_pages(self, count: int) -> _Words:
        """The first words of a stream that only the secret determines, for `count` pages."""
        words = count * self.page_tokens
        stream = hashlib.shake_256(self._key).digest(words * KEY_BYTES)
        self._words = memoryview(stream).cast("Q")
        return np.frombuffer(stream, dtype=np.uint64).reshape(count, self.page_tokens)


def _packed(token_ids: Sequence[int]) -> "array[int]":
    if isinstance(token_ids, array) and token_ids.typecode == "I":
        return token_ids
    try:
        return array("I", token_ids)
    except OverflowError as exc:
        raise ValueError("a token id does not fit 32 bits: ids run from 0 to 2**32 - 1") from exc
