"""Excerpts for messages: short, on one line, with invisible characters as escapes."""

import re
import unicodedata

from prompts.shared_length import shared_length

_SPAN = 24
_ESCAPES = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}
_CONTROL = ("C", "Z")
_MARKS = re.compile("[\ue0f2-\ue0f4]")


def differing(one: str, other: str) -> tuple[str, str]:
    """The places where two texts part, with a few characters around."""
    start = max(0, shared_length(one, other) - _SPAN // 2)
    excerpts = [excerpt(one, start), excerpt(other, start)]
    if excerpts[0] == excerpts[1]:  # the same to the eye: composed and decomposed characters
        excerpts = [ascii(text[start : start + _SPAN])[1:-1] for text in (one, other)]
    return excerpts[0], excerpts[1]


def excerpt(text: str, start: int = 0, span: int = _SPAN) -> str:
    """Part of a text in quotation marks, cut at both ends."""
    shown = "".join([_visible(character) for character in text[start : start + span]])
    before = "…" if start else ""
    after = "…" if len(text) > start + span else ""
    return f"“{before}{_MARKS.sub('*', shown)}{after}”"


def _visible(character: str) -> str:
    if character in _ESCAPES:
        return _ESCAPES[character]
    category = unicodedata.category(character)
    if character == " " or not category.startswith(_CONTROL):
        return f"\\u{ord(character):04x}" if unicodedata.combining(character) else character
    return f"\\u{ord(character):04x}" if category != "Co" else character
