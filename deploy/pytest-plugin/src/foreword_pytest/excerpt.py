"""Text as people can see it: characters that don't show are escapes, and a caret says where."""

import unicodedata
from dataclasses import dataclass

from foreword_pytest.prompt import FlatPrompt, text_token

_AROUND = 36
_NAMED = {"\n": "⏎", "\t": "\\t", "\r": "\\r", "\u00a0": "\\u00a0"}
# Letters and marks that show; all else but the plain space is spelled out.
_HIDDEN_CATEGORIES = ("Cc", "Cf", "Co", "Cn", "Cs", "Zl", "Zp", "Zs", "Mn", "Me")


@dataclass(frozen=True, slots=True, kw_only=True)
class Excerpt:
    """A line of text around an offset, and the column in it of that offset."""

    text: str
    caret: int


def excerpt(text: str, offset: int) -> Excerpt:
    """What stands around an offset, on one line."""
    start, stop = max(0, offset - _AROUND), min(len(text), offset + _AROUND)
    before = ("…" if start else "") + visible(text[start:offset])
    after = visible(text[offset:stop]) + ("…" if stop < len(text) else "")
    return Excerpt(text=f"{before}{after}" or "(nothing)", caret=len(before))


def token_excerpt(text: str, offset: int) -> Excerpt:
    """The same for token ids."""
    start, stop = max(0, offset - 5), min(len(text), offset + 5)
    before = " ".join(str(text_token(c)) for c in text[start:offset])
    after = " ".join(str(text_token(c)) for c in text[offset:stop])
    lead = f"{before} " if before else ""
    return Excerpt(text=f"{lead}{after}" or "(nothing)", caret=len(lead))


def excerpt_of(prompt: FlatPrompt, text: str, offset: int) -> Excerpt:
    """The kind of excerpt that suits a prompt."""
    return token_excerpt(text, offset) if prompt.unit == "token" else excerpt(text, offset)


def visible(text: str) -> str:
    """The text with each character that doesn't show as an escape."""
    return "".join(_visible(character) for character in text)


def _visible(character: str) -> str:
    if character == " ":
        return character
    if character in _NAMED:
        return _NAMED[character]
    if unicodedata.category(character) in _HIDDEN_CATEGORIES:
        code = ord(character)
        return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
    return character


def line_and_column(text: str, offset: int) -> tuple[int, int]:
    """Both from 1."""
    line_start = text.rfind("\n", 0, offset) + 1
    return text.count("\n", 0, offset) + 1, offset - line_start + 1
