"""What is asked, before it has an order: the same content is laid out differently by each arm.

Pure: the same seed makes the same bytes anywhere.
"""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from hashlib import sha256

from bench.run_folder import Phase
from bench.workloads import Chance, english_words

_CLOCK_START_S = 9 * 3600
_STEP_S = 7
_ENGLISH = english_words()


@dataclass(frozen=True, slots=True, kw_only=True)
class Content:
    """One request's parts.

    Attributes:
        rules: what never changes.
        shared: what others show too: documents, in one order for all.
        question: what only this request asks.
        clock: the time of the request, as a careless prompt shows it.
        phase: `cold` for requests that only fill the caches.
    """

    id: str
    rules: str
    shared: tuple[str, ...]
    question: str
    clock: str
    phase: Phase = "warm"


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """How much is asked; lengths are in words.

    Attributes:
        rotation: documents that are asked about in turn, each `visits` times; the first visits
            only fill the caches.
        tokens_per_word: of the model that is asked.
    """

    requests: int = 32
    prefixes: int = 6
    prefix_words: int = 700
    documents: int = 5
    document_words: int = 600
    rule_words: int = 150
    question_words: int = 25
    rotation: int = 11
    rotation_words: int = 1_700
    visits: int = 3
    max_tokens: int = 8
    seed: int = 1
    tokens_per_word: float = 1.1

    def scaled(self, factor: float) -> "Sizes":
        """Rules and documents so many times as long: the same experiment on a slower machine."""
        lengths = ("prefix_words", "document_words", "rule_words", "rotation_words")
        return replace(self, **{name: round(factor * getattr(self, name)) for name in lengths})


def prefix_repetition(sizes: Sizes) -> list[Content]:
    """A few long prefixes, some asked more often (Zipf), each time with another end."""
    chance = Chance(sizes.seed, "prefix-repetition")
    rules = _text(chance, "rules", sizes.rule_words)
    prefixes = [_text(chance, f"prefix {n}", sizes.prefix_words) for n in range(sizes.prefixes)]
    picked = chance.child("which")
    return [
        _content(chance, number, sizes, rules, (prefixes[_zipf(picked, sizes.prefixes)],))
        for number in range(sizes.requests)
    ]


def document_qa(sizes: Sizes) -> list[Content]:
    """Questions about documents: each shows one that leads, and half of them a second one."""
    chance = Chance(sizes.seed, "document-qa")
    rules = _text(chance, "rules", sizes.rule_words)
    documents = [
        f"Document {n}:\n{_text(chance, f'document {n}', sizes.document_words)}"
        for n in range(sizes.documents)
    ]
    picked = chance.child("which")
    made = []
    for number in range(sizes.requests):
        first = _zipf(picked, sizes.documents)
        second = first + 1 if picked.random() < 0.5 and first + 1 < sizes.documents else None
        shown = (documents[first],) if second is None else (documents[first], documents[second])
        made.append(_content(chance, number, sizes, rules, shown))
    return made


def no_reuse(sizes: Sizes) -> list[Content]:
    """Nothing in a request was in another one: no layout can gain anything."""
    chance = Chance(sizes.seed, "no-reuse")
    made = []
    for number in range(sizes.requests):
        rules = _text(chance, f"rules {number}", sizes.rule_words)
        shared = _text(chance, f"shared {number}", sizes.prefix_words)
        made.append(_content(chance, number, sizes, rules, (shared,)))
    return made


def one_character(sizes: Sizes) -> list[Content]:
    """Each document twice: once to fill the cache, then a question about it."""
    chance = Chance(sizes.seed, "one-character")
    rules = "Document assistant. " + _text(chance, "rules", sizes.rule_words)
    documents = [
        _text(chance, f"document {n}", sizes.document_words) for n in range(sizes.documents)
    ]
    return [
        _content(chance, number, sizes, rules, (documents[number % len(documents)],), phase)
        for number, phase in enumerate(_phases(len(documents), 1))
    ]


def rotation(sizes: Sizes) -> list[Content]:
    """Large documents in turn, so that an LRU cache that can't hold all of them holds none."""
    chance = Chance(sizes.seed, "rotation")
    rules = _text(chance, "rules", sizes.question_words)
    documents = [
        _text(chance, f"document {n}", sizes.rotation_words) for n in range(sizes.rotation)
    ]
    return [
        _content(chance, number, sizes, rules, (documents[number % len(documents)],), phase)
        for number, phase in enumerate(_phases(len(documents), sizes.visits - 1))
    ]


def content_sha256(contents: Sequence[Content]) -> str:
    """One digest for the same content in whatever layout."""
    listed = json.dumps([asdict(each) for each in contents], sort_keys=True)
    return sha256(listed.encode()).hexdigest()


def _phases(documents: int, warm_rounds: int) -> list[Phase]:
    cold: list[Phase] = ["cold"] * documents
    return cold + ["warm"] * (documents * warm_rounds)


def _content(
    chance: Chance,
    number: int,
    sizes: Sizes,
    rules: str,
    shared: tuple[str, ...],
    phase: Phase = "warm",
) -> Content:
    second = _CLOCK_START_S + _STEP_S * number
    return Content(
        id=f"{number:04}",
        rules=rules,
        shared=shared,
        question=f"Question {number}: {_text(chance, f'question {number}', sizes.question_words)}?",
        clock=f"{second // 3600:02}:{second // 60 % 60:02}:{second % 60:02}",
        phase=phase,
    )


def _text(chance: Chance, name: str, words: int) -> str:
    return _ENGLISH.text(chance.child(name), words)


def _zipf(chance: Chance, count: int) -> int:
    """A place, the first ones more often."""
    weights = [1 / (place + 1) for place in range(count)]
    drawn = chance.random() * sum(weights)
    for place, weight in enumerate(weights):
        drawn -= weight
        if drawn < 0:
            return place
    return count - 1
