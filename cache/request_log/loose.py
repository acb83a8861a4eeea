"""Texts reduced to what two spellings of one text have in common."""

import re
import unicodedata
from collections.abc import Iterator
from hashlib import blake2b

from cache.request_log.patterns import mask_volatile
from cache.request_log.table import TextStore

_THINKING = re.compile(r"<think(?:ing)?>.*?</think(?:ing)?>", re.DOTALL)
_NOT_WORDS = re.compile(r"[\W_]+")
_NOT_LETTERS = re.compile(r"[\W\d_]+")
_LEAST_LETTERS = 12
_OPENING_CHARACTERS = 160
_SEARCHED_PIECES = 3


def without_reasoning(text: str) -> str:
    """The text without `<think>` blocks."""
    return _THINKING.sub("", text) if "<think" in text else text


def loose_text(text: str) -> str:
    """Words and digits alone, in lower case and one Unicode form, volatile values masked."""
    masked = mask_volatile(without_reasoning(text))
    return _NOT_WORDS.sub(" ", unicodedata.normalize("NFKC", masked).casefold()).strip()


class LooseTexts:
    """Loose keys of messages and pieces, each computed once."""

    def __init__(self, store: TextStore) -> None:
        self._store = store
        self._openings: dict[int, int] = {}
        self._closings: dict[int, int] = {}
        self._pieces: dict[int, int] = {}

    def opening(self, message: int) -> int:
        """A key that messages have in common when they loosely start alike."""
        if message not in self._openings:
            self._enter(message)
        return self._openings[message]

    def search_keys(self, message: int) -> Iterator[int]:
        """Keys under which a message is found again when text was put before or behind it."""
        yield self.opening(message)
        yield self._closing(message)
        pieces = self._store.piece_numbers(message)
        for number in {*pieces[:_SEARCHED_PIECES], *pieces[-_SEARCHED_PIECES:]}:
            if key := self.piece(number):
                yield key

    def are_alike(self, one: int, other: int) -> bool:
        """Whether two messages start or end alike, or one has most of the other's text."""
        if self.opening(one) == self.opening(other) or self._closing(one) == self._closing(other):
            return True
        return self._store.roles[one] == self._store.roles[other] and (
            self._has_most_of(one, other) or self._has_most_of(other, one)
        )

    def _closing(self, message: int) -> int:
        self.opening(message)
        return self._closings[message]

    def _has_most_of(self, message: int, other: int) -> bool:
        own = {self.piece(number) for number in self._store.piece_numbers(message)}
        pieces = self._store.piece_numbers(other)
        weights = [(self.piece(number), len(self._store.piece(number))) for number in pieces]
        shared = sum(weight for key, weight in weights if key and key in own)
        return 2 * shared > sum(weight for _, weight in weights)

    def piece(self, number: int) -> int:
        """The key of a piece, 0 for one with hardly a word."""
        key = self._pieces.get(number)
        if key is None:
            folded = unicodedata.normalize("NFKC", self._store.piece(number)).casefold()
            letters = _NOT_LETTERS.sub(" ", folded).strip()
            key = _key("piece", letters) if len(letters) >= _LEAST_LETTERS else 0
            self._pieces[number] = key
        return key

    def _enter(self, message: int) -> None:
        role = self._store.roles[message]
        text = loose_text(self._store.text(message))
        if not self._store.is_plain(message):
            rich = self._store.message(message)
            calls = [f"{call.name} {loose_text(call.arguments)}" for call in rich.tool_calls]
            text = " ".join([text, *calls, rich.tool_call_id or ""])
        self._openings[message] = _key(role, text[:_OPENING_CHARACTERS])
        self._closings[message] = _key(role + "/end", text[-_OPENING_CHARACTERS:])


def _key(kind: str, text: str) -> int:
    digest = blake2b(f"{kind}\0{text}".encode(errors="replace"), digest_size=8).digest()
    return int.from_bytes(digest)
