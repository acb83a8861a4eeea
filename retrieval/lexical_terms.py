"""A text's terms for lexical search, in any language and for code, numbers and part names.

- Words are runs of letters, digits and the marks that belong to them, folded: case, width and
  accents don't count. Nothing is stemmed: that would be right for one language alone.
- `snake_case`, `camelCase` and `FW703` are found as a whole and by their parts.
- What dots and hyphens hold together (`os.path`, `CVE-2024-1`, `v1.2`) likewise; of a number such
  as `10.5` the parts say nothing, so it stays whole.
- Scripts that write no spaces give pairs of neighbouring characters.

Equal texts give equal terms on machines with the same Unicode data (`VERSION` names it).
"""

import re
import unicodedata
from collections.abc import Iterable

# Changes whenever the same text would give other terms.
VERSION = f"1, Unicode {unicodedata.unidata_version}"

_MAX_CHARACTERS = 64
# Combining marks that `\w` leaves out: a word of Hindi or Hebrew would break at each of them.
_MARKS = "\u0300-\u036f\u0591-\u05c7\u0610-\u061a\u064b-\u065f\u0670\u0900-\u0963\u0966-\u109f"
_CHARACTER = rf"[\w{_MARKS}]"
_COMPOUND = re.compile(rf"{_CHARACTER}+(?:[.\-]{_CHARACTER}+)*")
_JOINER = re.compile(r"[.\-]")
_NUMBER = re.compile(r"\d+(?:\.\d+)+")
_PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
# Outside ASCII case marks no parts: who writes `ÜberHaus` is rarer than who writes `STRAßE`.
_BOUNDARY = re.compile(r"_+|(?<=\d)(?=\D)|(?<=\D)(?=\d)")
_ACCENT = re.compile("[\u0300-\u036f]")
# Han, Kana, Hangul is spaced; Thai, Lao, Myanmar, Khmer.
_UNSPACED = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff]+"
)

_CAPITALS = re.compile(r"\b[A-Z]{2,}\b")
# English alone: a short question in another language loses nothing by it.
_ASKING = frozenset(
    re.findall(
        r"\w+",
        """
    a about am an and any are as at be been but by can could did do does doing for from get had has
    have having he her here his how i if in into is it its just me my of on or our she should so
    some such than that the their them then there these they this those to too us was we were what
    when where which while who whom whose why will with would you your
    """,
    )
)


class Terms:
    """Makes terms of texts; remembers words, since most come again. For one thread."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[str, ...]] = {}

    def of(self, text: str) -> list[str]:
        """All terms of a text in order, repeated ones too."""
        plain = text if text.isascii() else unicodedata.normalize("NFKC", text)
        found: list[str] = []
        for compound in _COMPOUND.findall(plain):
            terms = self._known.get(compound)
            if terms is None:
                terms = self._known[compound] = tuple(_terms(compound))
            found += terms
        return found


def query_terms(text: str) -> list[str]:
    """The different terms of a question, sorted; words that only ask are left out if others stay.

    Documents rarely have "I" or "how", so that these would count as telling. In capitals ("IT
    department", "WHO") they are names.
    """
    terms = set(Terms().of(text))
    named = {word.lower() for word in _CAPITALS.findall(text)}
    return sorted(terms - (_ASKING - named) or terms)


def _terms(compound: str) -> list[str]:
    whole = _folded(compound)
    if _NUMBER.fullmatch(whole):
        return [whole]
    words = _JOINER.split(compound)
    terms = [whole] if len(words) > 1 else []
    for word in words:
        terms += _word_terms(word)
    return [term[:_MAX_CHARACTERS] for term in terms if term]


def _word_terms(word: str) -> Iterable[str]:
    unspaced = _UNSPACED.findall(word)
    if unspaced:
        rest = [_folded(part) for part in _UNSPACED.split(word) if part]
        return [*rest, *(pair for run in unspaced for pair in _pairs(run))]
    whole = _folded(word).strip("_")
    if word.islower() and word.isalpha():
        return [whole]
    cut = _PART.findall(word) if word.isascii() else _BOUNDARY.split(word)
    parts = [_folded(part) for part in cut if part]
    return [whole, *parts] if len(parts) > 1 else [whole]


def _pairs(run: str) -> list[str]:
    return [run[at : at + 2] for at in range(len(run) - 1)] or [run]


def _folded(word: str) -> str:
    if word.isascii():
        return word.lower()
    bare = _ACCENT.sub("", unicodedata.normalize("NFKD", word.casefold()))
    return unicodedata.normalize("NFKC", bare)
