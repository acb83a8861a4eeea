"""Which passages an answer rests on: those it names, else those whose words it uses.

Small models name their sources unreliably, so each citation says how it was found: `named` when the
answer names the document in square brackets, `overlap` when it shares the most telling words with
the passage. An answer that rests on nothing in the prompt has no citations.
"""

import re
from collections.abc import Sequence
from typing import Any, Protocol

_WORD = re.compile(r"\w+(?:[.,:]\d+)*")
_NAMED = re.compile(r"\[([^\[\]]{1,200})\]")
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
    def text(self) -> str: ...
    @property
    def page(self) -> int | None: ...
    @property
    def heading(self) -> str | None: ...


def cite(answer: str, passages: Sequence[Passage]) -> list[dict[str, Any]]:
    """The citations of an answer, best first, at most three, one for each document."""
    named = {name.strip().casefold() for name in _NAMED.findall(answer)}
    words = _telling(answer)
    found: dict[str, tuple[bool, float, Passage]] = {}
    for passage in passages:
        share = _share(words, passage.text)
        is_named = passage.document.casefold() in named
        if not is_named and share < _MIN_SHARE:
            continue
        best = found.get(passage.document)
        if best is None or (is_named, share) > best[:2]:
            found[passage.document] = (is_named, share, passage)
    ranked = sorted(found.values(), key=lambda hit: hit[:2], reverse=True)[:_MAX_CITATIONS]
    return [_citation(is_named, share, passage, words) for is_named, share, passage in ranked]


def _citation(
    is_named: bool, share: float, passage: Passage, words: frozenset[str]
) -> dict[str, Any]:
    return {
        "document": passage.document,
        "page": passage.page,
        "heading": passage.heading,
        "found_by": "named" if is_named else "overlap",
        "share": round(share, 2),
        "text": _snippet(passage.text, words),
    }


def _telling(text: str) -> frozenset[str]:
    """Long words and all numbers, case-folded."""
    return frozenset(
        word.casefold()
        for word in _WORD.findall(text)
        if len(word) >= _MIN_WORD or any(c.isdigit() for c in word)
    )


def _share(words: frozenset[str], text: str) -> float:
    """The part of the answer's telling words that a passage has; 0 for an answer without any."""
    return len(words & _telling(text)) / len(words) if words else 0.0


def _snippet(text: str, words: frozenset[str]) -> str:
    """The sentence of a passage that shares the most words with the answer."""
    sentences = re.split(r"(?<=[.!?])\s+|\n+", text.strip())
    best = max(sentences, key=lambda sentence: len(words & _telling(sentence)))
    return best.strip()[:_SNIPPET_CHARACTERS]
