"""Text for people: what can't be seen is spelled out, and a caret still points at its column."""

import os
import unicodedata
from pathlib import Path

from prompts.invisible import find_invisible

_ESCAPES = {"\t": "\\t", "\r": "\\r", "\n": "\\n", "\x1b": "\\x1b"}
# Where they shape their neighbours; elsewhere they count as invisible.
_JOINERS = ("\u200c", "\u200d")
_WIDE = ("W", "F")


def visible(text: str) -> str:
    """The text with invisible characters and trailing spaces spelled out."""
    return "".join(visible_characters(text))


def path_text(path: Path) -> str:
    """A path with forward slashes; bytes of its name that aren't UTF-8 as U+FFFD."""
    return os.fsencode(path.as_posix()).decode(errors="replace")


def visible_characters(text: str) -> list[str]:
    """Each character as it is shown."""
    body = text.rstrip(" ")
    hidden = {found.offset for found in find_invisible(body)}
    hidden |= {index for index in range(1, len(body)) if _composes(body[index - 1 : index + 1])}
    shown = [_shown(character, index in hidden) for index, character in enumerate(body)]
    return shown + ["·"] * (len(text) - len(body))


def width(text: str) -> int:
    """Columns that a text takes on a terminal."""
    if text.isascii():
        return len(text)
    return sum(_width(character) for character in text)


def _width(character: str) -> int:
    if unicodedata.combining(character) or character in _JOINERS:
        return 0
    return 2 if unicodedata.east_asian_width(character) in _WIDE else 1


def _shown(character: str, hidden: bool) -> str:
    if character in _ESCAPES:
        return _ESCAPES[character]
    if hidden or not (character.isprintable() or character in _JOINERS):
        return f"⟨U+{ord(character):04X}⟩"
    return character


def _composes(pair: str) -> bool:
    """Whether two characters are one in NFC: together they look like another text."""
    return not pair.isascii() and len(unicodedata.normalize("NFC", pair)) == 1
