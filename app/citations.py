"""Which passages an answer rests on: those it names, else those whose words it uses.

Small models name their sources unreliably, so each citation says how it was found: `named` when the
answer names the document in square brackets, `overlap` when it shares the most telling words with
the passage. An answer that rests on nothing in the prompt has no citations.

A citation shows a passage as its document has it, with its place there, however it was ordered, put
together with its neighbours or escaped in the prompt.
"""

import re
import sys
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, Protocol

from prompts import shown_name

_WORD = re.compile(r"\w+(?:[.,:]\d+)*")
_NAMED = re.compile(r"\[([^\[\]]{1,200})\]")
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+|\n+")
# Words that carry no fact; short ones are passed over by length.
_MIN_WORD = 4
_MIN_SHARE = 0.5
_MAX_CITATIONS = 3
_SNIPPET_CHARACTERS = 240


class Passage(Protocol):
    """A piece of a document that was put into the prompt."""

    @property
    def document(self) -> str: ...
    @property
    def file_id(self) -> str: ...
    @property
    def chunk_id(self) -> str: ...
    @property
    def text(self) -> str: ...
    @property
    def start(self) -> int: ...
    @property
    def end(self) -> int: ...
    @property
    def page(self) -> int | None: ...
    @property
    def heading(self) -> str | None: ...
    @property
    def score(self) -> float | None: ...
    @property
    def words(self) -> frozenset[str]: ...


class _Hit(NamedTuple):
    """How well a passage fits the answer; a greater one fits better.

    Of two that share as much with it, the search says which; their order in the prompt doesn't.
    """

    is_named: bool
    share: float
    score: float


def cite(answer: str, passages: Sequence[Passage]) -> list[dict[str, Any]]:
    """The citations of an answer, best first, at most three, one for each file."""
    if not passages:
        return []
    named = _names(answer)
    words = telling_words(answer)
    best: dict[tuple[str, str], tuple[_Hit, Passage]] = {}
    for passage in passages:
        name = shown_name(passage.document).strip().casefold()
        hit = _Hit(name in named, _share(words, passage.words), passage.score or 0.0)
        if not hit.is_named and hit.share < _MIN_SHARE:
            continue
        file = (passage.file_id, passage.document)
        known = best.get(file)
        if known is None or hit > known[0]:
            best[file] = (hit, passage)
    ranked = sorted(best.values(), key=lambda found: found[0], reverse=True)[:_MAX_CITATIONS]
    return [_citation(answer, hit, passage, named, words) for hit, passage in ranked]


def _citation(
    answer: str, hit: _Hit, passage: Passage, named: dict[str, int], words: frozenset[str]
) -> dict[str, Any]:
    name = shown_name(passage.document).strip().casefold()
    return {
        "document": passage.document,
        "file_id": passage.file_id,
        "chunk_id": passage.chunk_id,
        "start": passage.start,
        "end": passage.end,
        "page": passage.page,
        "heading": passage.heading,
        "found_by": "named" if hit.is_named else "overlap",
        "share": round(hit.share, 2),
        "index": named[name] if hit.is_named else _end_of_best(answer, passage.words),
        "text": _snippet(passage.text, words),
    }


def _names(answer: str) -> dict[str, int]:
    """What stands in square brackets, as names are compared, with the character behind it."""
    places: dict[str, int] = {}
    for found in _NAMED.finditer(answer):
        places.setdefault(found.group(1).strip().casefold(), found.end())
    return places


def telling_words(text: str) -> frozenset[str]:
    """Long words and all numbers, case-folded; equal words are one object, since passages share
    most of theirs and are kept."""
    return frozenset(
        sys.intern(word.casefold())
        for word in _WORD.findall(text)
        if len(word) >= _MIN_WORD or (not word.isalpha() and any(c.isdigit() for c in word))
    )


def _share(words: frozenset[str], passage: frozenset[str]) -> float:
    """The part of the answer's telling words that a passage has; 0 for an answer without any."""
    return len(words & passage) / len(words) if words else 0.0


def _snippet(text: str, words: frozenset[str]) -> str:
    """The sentence of a passage that shares the most words with the answer."""
    sentences = [text[start:end] for start, end in _sentences(text)] or [""]
    best = max(sentences, key=lambda sentence: len(words & telling_words(sentence)))
    return best.strip()[:_SNIPPET_CHARACTERS]


def _end_of_best(answer: str, words: frozenset[str]) -> int:
    """The character behind the answer's sentence that shares the most words with a passage."""
    ends = list(_sentences(answer))
    return (
        max(ends, key=lambda s: len(words & telling_words(answer[s[0] : s[1]])))[1] if ends else 0
    )


def _sentences(text: str) -> Iterator[tuple[int, int]]:
    """Where the sentences and lines of a text lie, the white space between them left out."""
    start = 0
    for gap in _SENTENCE_END.finditer(text):
        if text[start : gap.start()].strip():
            yield start, gap.start()
        start = gap.end()
    if text[start:].strip():
        yield start, start + len(text[start:].rstrip())
