"""What can make a piece of text differ from one request to the next, and where that enters."""

from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias


class Kind(StrEnum):
    """A cause: a fault by itself, or only where it stands, or only as a condition."""

    CLOCK = "clock"
    IDENTIFIER = "identifier"
    USER = "user"
    QUESTION = "question"
    TURN = "turn"
    DOCUMENTS = "documents"
    SCORE = "score"
    SAMPLE = "sample"
    LOCALE = "locale"
    MACHINE = "machine"
    SET_ORDER = "set order"
    LISTING = "listing"
    TOOL_LISTING = "tool listing"
    JSON_ORDER = "json order"
    TRUNCATED = "truncated"
    SUMMARY = "summary"
    STRIPPED = "stripped reasoning"
    PARSED = "parsed json"
    RESERIALISED = "reserialised json"
    REQUEST = "request"


# Gone once the values have been sorted.
ORDER_KINDS = frozenset({Kind.SET_ORDER, Kind.LISTING, Kind.TOOL_LISTING})
# What differs between two requests to one deployment; a choice that hangs on it differs too.
PER_REQUEST = frozenset(
    {Kind.CLOCK, Kind.IDENTIFIER, Kind.USER, Kind.QUESTION, Kind.TURN, Kind.DOCUMENTS, Kind.SAMPLE}
    | {Kind.REQUEST}
)


@dataclass(frozen=True, slots=True)
class Span:
    """Where an expression lies: lines from 1, columns in UTF-8 bytes from 0, as `ast` has them."""

    line: int
    column: int
    end_line: int
    end_column: int


@dataclass(frozen=True, slots=True)
class Taint:
    """A cause and the expression it enters by.

    `sure` is False where only a name says so; `label` is shown instead of the expression's code.
    """

    kind: Kind
    span: Span
    sure: bool = True
    label: str = ""


Taints: TypeAlias = frozenset[Taint]
CLEAN: Taints = frozenset()


def without(taints: Taints, kinds: frozenset[Kind]) -> Taints:
    """The taints of other kinds."""
    return frozenset(t for t in taints if t.kind not in kinds) if taints else taints


def has(taints: Taints, *kinds: Kind) -> bool:
    """Whether one of them is of one of the kinds."""
    return any(t.kind in kinds for t in taints)


def request_taints(given: Taints, span: Span) -> Taints:
    """What is made of a request's data in some unknown way: it differs from request to request."""
    if not has(given, *PER_REQUEST):
        return CLEAN
    return frozenset({Taint(Kind.REQUEST, span, sure=False)})
