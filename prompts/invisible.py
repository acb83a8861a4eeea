"""Characters that nobody sees but that every tokenizer does.

Template text may not hold them unless its segment allows their kind; text from users is left alone.
A joiner or a variation selector that shapes its neighbours (an emoji, Persian, Hindi) is no fault.
"""

import re
from dataclasses import dataclass
from enum import StrEnum


class InvisibleKind(StrEnum):
    """Why a character can't be seen. The words are those of a segment's `allow`."""

    SPACE = "space"  # looks like a space or a line end and is none: no-break space, U+2028
    ZERO_WIDTH = "zero-width"  # takes no room: zero-width space, byte-order mark, joiners
    BIDI = "bidi"  # turns the direction of writing
    HYPHEN = "hyphen"  # U+00AD, shown only where a line breaks
    CONTROL = "control"  # C0 and C1 controls, DEL
    TAG = "tag"  # tags and variation selectors: a way to hide text in text


_CLASSES = {
    InvisibleKind.SPACE: "\u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f",
    InvisibleKind.ZERO_WIDTH: (
        "\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200d\u2060-\u2065\u206a-\u206f"
        "\u3164\ufeff\uffa0\ufff0-\ufffb\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"
    ),
    InvisibleKind.BIDI: "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069",
    InvisibleKind.HYPHEN: "\u00ad",
    InvisibleKind.CONTROL: "\x00-\x08\x0b-\x1f\x7f-\x9f",
    InvisibleKind.TAG: "\ufe00-\ufe0f\U000e0000-\U000e0fff",
}
_ALL = "".join(_CLASSES.values())
_ANY = re.compile(f"[{_ALL}]")
# Without the ranges above U+FFFF, which cost a search half of its speed.
_NEAR = re.compile("[" + re.sub("[\U00010000-\U0010ffff](?:-.)?", "", _ALL) + "]")
_FAR = re.compile("[\U00010000-\U0010ffff]")
_SEEN = b"\t\n" + bytes(range(0x20, 0x7F))
_KINDS = tuple((kind, re.compile(f"[{members}]")) for kind, members in _CLASSES.items())
_JOINERS = "\u200c\u200d"
_SELECTORS = re.compile("[\u180b-\u180d\u180f\ufe00-\ufe0f\U000e0100-\U000e01ef]")
_FLAG_TAGS = re.compile("\U0001f3f4[\U000e0020-\U000e007e]{1,6}\U000e007f")


@dataclass(frozen=True, slots=True, kw_only=True)
class Invisible:
    """One invisible character of a text and where it stands."""

    offset: int
    character: str
    kind: InvisibleKind

    @property
    def escape(self) -> str:
        """`U+200B`."""
        return f"U+{ord(self.character):04X}"


def find_invisible(text: str) -> list[Invisible]:
    """The invisible characters of a text, in order, without those that shape their neighbours.

    A line feed, a tab and the carriage return of a line end are no faults here.
    """
    rest = _unusual(text)
    if not rest or not _ANY.search(rest):
        return []
    pattern = _ANY if _FAR.search(rest) else _NEAR
    flags = [match.span() for match in _FLAG_TAGS.finditer(text)] if pattern is _ANY else []
    return [
        Invisible(offset=match.start(), character=match.group(), kind=_kind(match.group()))
        for match in pattern.finditer(text)
        if not _has_use(text, match.start())
        and not any(start < match.start() < stop for start, stop in flags)
    ]


def _unusual(text: str) -> str:
    """The characters that aren't printable ASCII, tab or line feed; far quicker than a pattern."""
    rest = text.encode(errors="surrogatepass").translate(None, _SEEN)
    return rest.decode(errors="surrogatepass")


def _kind(character: str) -> InvisibleKind:
    return next(kind for kind, pattern in _KINDS if pattern.match(character))


def _has_use(text: str, offset: int) -> bool:
    """Whether the character does something that a reader sees, where it stands."""
    character = text[offset]
    before, after = text[offset - 1 : offset], text[offset + 1 : offset + 2]
    if character == "\r":
        return after == "\n"
    if character in _JOINERS:
        return _shapes(before) and _shapes(after)
    if _SELECTORS.match(character):
        # Keycaps put a selector behind a digit, # or *.
        return _shapes(before) or before in tuple("0123456789#*")
    return False


def _shapes(neighbour: str) -> bool:
    """Whether a neighbour may be joined: part of a script or an emoji, and itself to be seen."""
    if neighbour == "\ufe0f":
        return True
    return bool(neighbour) and not neighbour.isascii() and not _ANY.match(neighbour)
