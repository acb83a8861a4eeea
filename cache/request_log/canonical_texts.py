"""Ways in which two texts differ only in their spelling, each with the form that makes them equal.

A form is taken for the cause of a difference only where it carries the shared prefix past the
place at which the texts part.
"""

import json
import re
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from cache.request_log.patterns import mask_clocks, mask_emails, mask_ids
from prompts.shared_length import shared_length

_INVISIBLE = re.compile(
    "[\u00ad\u034f\u061c\u115f\u1160\u180e\u200b-\u200f\u202a-\u202e\u2060-\u2064\u2066-\u2069\ufeff]"
)
_SPACES = re.compile("[\u00a0\u1680\u2000-\u200a\u202f\u205f\u3000]")
_TRAILING = re.compile(r"[ \t]+(?=\n|\Z)")
_BLANKS = re.compile(r"[ \t]*\n\s*|[ \t]+")
_NUMBER = re.compile(
    r"(?<![\w.,])\d{1,3}(?:[.,'\u2019\u00a0\u202f ]\d{3})+(?:[.,]\d+)?(?![\d])|\b\d+[.,]\d+\b"
)
# So many characters may agree behind a difference without a reason.
_BY_CHANCE = 8
_KEY = re.compile(r'"((?:[^"\\]|\\.)*)"\s*:')
_SEPARATORS = re.compile(r"\D")


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """A way to spell texts alike; `code` is the rule that is broken where it matters."""

    code: str
    apply: Callable[[str], str]
    volatile: bool = False


def _one_newline(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _visible(text: str) -> str:
    return _INVISIBLE.sub("", _SPACES.sub(" ", text))


def _no_trailing(text: str) -> str:
    return _TRAILING.sub("", text)


def _single_blanks(text: str) -> str:
    return _BLANKS.sub(" ", text).strip()


def _plain_numbers(text: str) -> str:
    return _NUMBER.sub(lambda found: _SEPARATORS.sub("", found.group()), text)


def canonical_json_parts(text: str) -> str:
    """The text with each JSON object or array in it spelled with sorted keys."""
    if "{" not in text:
        return text
    decoder = json.JSONDecoder()
    parts: list[str] = []
    at = 0
    while (start := text.find("{", at)) >= 0:
        parts.append(text[at:start])
        try:
            value, at = decoder.raw_decode(text, start)
        except (json.JSONDecodeError, RecursionError):
            parts.append("{")
            at = start + 1
            continue
        parts.append(json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":")))
    return "".join([*parts, text[at:]])


SPELLINGS = (
    Form(code="FW202", apply=_one_newline),
    Form(code="FW207", apply=_visible),
    Form(code="FW203", apply=partial(unicodedata.normalize, "NFC")),
    Form(code="FW201", apply=_no_trailing),
    Form(code="FW206", apply=_single_blanks),
    Form(code="FW205", apply=_plain_numbers),
    Form(code="FW208", apply=canonical_json_parts),
)
VOLATILE = (
    Form(code="FW102", apply=mask_clocks, volatile=True),
    Form(code="FW104", apply=mask_emails, volatile=True),
    Form(code="FW103", apply=mask_ids, volatile=True),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Spelled:
    """Two texts after the forms that explain their differences; equal when they explain all."""

    codes: tuple[str, ...]
    one: str
    other: str

    @property
    def parted(self) -> int:
        """The first character in which what is left differs."""
        return shared_length(self.one, self.other)


def spell_alike(one: str, other: str, forms: tuple[Form, ...] = SPELLINGS + VOLATILE) -> Spelled:
    """Apply the forms that explain where the texts part, one after the other."""
    codes: list[str] = []
    found: Form | None = forms[0]
    while one != other and found:
        found = next((form for form in forms if _explains(form, one, other)), None)
        if found:
            codes += [found.code] if found.code not in codes else []
            one, other = found.apply(one), found.apply(other)
    return Spelled(codes=tuple(codes), one=one, other=other)


def _explains(form: Form, one: str, other: str) -> bool:
    """Whether the form carries the common prefix past the place where the texts part."""
    new, new_other = form.apply(one), form.apply(other)
    if new == one and new_other == other:
        return False
    if new == new_other:
        return True
    if form.code == "FW208" and _KEY.findall(one) == _KEY.findall(other):
        return False  # sorting moved a value that differs, but the keys came in one order
    parted = shared_length(one, other)
    line = one.rfind("\n", 0, parted) + 1
    moved = shared_length(new, new_other) - len(form.apply(one[:line]))
    return moved > parted - line + _BY_CHANCE
