"""How good an answer is, against the answers that would have been right. Pure.

Source: the official SQuAD 1.1 evaluation (rajpurkar.github.io/SQuAD-explorer, evaluate-v1.1.py):
lower case, punctuation and English articles out, white space joined; the best of several answers.
"""

import re
import string
from collections import Counter
from collections.abc import Sequence

_ARTICLES = re.compile(r"\b(a|an|the)\b")
_PUNCTUATION = frozenset(string.punctuation)
_FIRST_WORD = re.compile(r"[^\W\d_]+")


def normalized(text: str) -> str:
    """The text as SQuAD compares it."""
    plain = "".join(c for c in text.lower() if c not in _PUNCTUATION)
    return " ".join(_ARTICLES.sub(" ", plain).split())


def exact_match(answer: str, right: Sequence[str]) -> float:
    """1 where the answer is one of the right ones, else 0.

    Raises:
        ValueError: no right answer is given.
    """
    return max(float(normalized(answer) == normalized(each)) for each in right)


def token_f1(answer: str, right: Sequence[str]) -> float:
    """The harmonic mean of precision and recall over words, 0 to 1; the best of several answers.

    Raises:
        ValueError: no right answer is given.
    """
    return max(_f1(normalized(answer).split(), normalized(each).split()) for each in right)


def _f1(answer: Sequence[str], right: Sequence[str]) -> float:
    if not answer or not right:
        return float(list(answer) == list(right))
    shared = (Counter(answer) & Counter(right)).total()
    if shared == 0:
        return 0.0
    precision, recall = shared / len(answer), shared / len(right)
    return 2 * precision * recall / (precision + recall)


def judged(verdict: str) -> float | None:
    """1 for a judge's yes, 0 for its no; None where its first word is neither."""
    first = _FIRST_WORD.search(verdict.lower())
    return {"yes": 1.0, "no": 0.0}.get(first.group() if first else "")
