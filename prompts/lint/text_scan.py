"""Literal text scanned for bytes nobody sees: fast, and only once for each text."""

import re
import unicodedata
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from prompts.invisible import Invisible, find_invisible

_TRAILING = re.compile(r"(?<![ \t])[ \t]+(?=\n|\Z)")
_SPECIAL = re.compile(
    r"<\|[a-z][a-z0-9_]{1,30}\|>|</?s>|\[/?INST\]|<</?SYS>>|<(?:bos|eos|pad|unk)>"
    r"|<(?:start|end)_of_turn>|<\uff5c[^\uff5c\n]{1,40}\uff5c>",
)
_PLAIN = b"\t\n" + bytes(range(0x20, 0x7F))
# A mark that a special token can't be without; looking for it is quicker than the pattern.
_OPENERS = ("<|", "<s>", "</s>", "<<", "<bos", "<eos", "<pad", "<unk", "_turn>", "<\uff5c")


class Blemish(StrEnum):
    """What is wrong at a place of a text."""

    TRAILING = "trailing"
    NOT_NFC = "not-nfc"
    INVISIBLE = "invisible"
    SPECIAL = "special"


@dataclass(frozen=True, slots=True)
class Mark:
    """Characters `start <= i < stop` of a scanned text."""

    blemish: Blemish
    start: int
    stop: int
    invisible: Invisible | None = None


class TextScanner:
    """Remembers the marks of the last `capacity` texts; a linter has one for its run."""

    def __init__(self, capacity: int = 4096) -> None:
        self._capacity = capacity
        self._seen: OrderedDict[str, tuple[Mark, ...]] = OrderedDict()

    def marks(self, text: str) -> tuple[Mark, ...]:
        """All marks of a text, in no particular order."""
        found = self._seen.get(text)
        if found is None:
            found = tuple(_marks(text))
            self._seen[text] = found
            if len(self._seen) > self._capacity:
                self._seen.popitem(last=False)
        return found

    def of(self, text: str, blemish: Blemish) -> Iterator[Mark]:
        """The marks of one kind."""
        return (mark for mark in self.marks(text) if mark.blemish is blemish)


def _marks(text: str) -> Iterator[Mark]:
    if " \n" in text or "\t\n" in text or text.endswith((" ", "\t")):
        for match in _TRAILING.finditer(text):
            yield Mark(Blemish.TRAILING, match.start(), match.end())
    if _may_spell_special(text):
        for match in _SPECIAL.finditer(text):
            yield Mark(Blemish.SPECIAL, match.start(), match.end())
    for invisible in () if _is_plain(text) else find_invisible(text):
        yield Mark(Blemish.INVISIBLE, invisible.offset, invisible.offset + 1, invisible)
    if not text.isascii() and not unicodedata.is_normalized("NFC", text):
        yield from _decomposed(text)


def _may_spell_special(text: str) -> bool:
    return "INST]" in text or ("<" in text and any(opener in text for opener in _OPENERS))


def _is_plain(text: str) -> bool:
    """Whether it is ASCII without control characters; far quicker to tell than by a pattern."""
    return text.isascii() and not text.encode().translate(None, _PLAIN)


def _decomposed(text: str) -> Iterator[Mark]:
    """Each cluster that NFC spells differently; the whole text where none does so alone."""
    start, found = 0, False
    for stop in range(1, len(text) + 1):
        if stop < len(text) and not _starts_cluster(text[stop]):
            continue
        if not unicodedata.is_normalized("NFC", text[start:stop]):
            yield Mark(Blemish.NOT_NFC, start, stop)
            found = True
        start = stop
    if not found:
        yield Mark(Blemish.NOT_NFC, 0, len(text))


def _starts_cluster(character: str) -> bool:
    """Whether NFC can never join a character with one before it."""
    return character.isascii() or (
        not unicodedata.combining(character) and not "\u1160" <= character <= "\u11ff"
    )
