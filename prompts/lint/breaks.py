"""Where a value or a branch ends the shared prefix although the same text follows each time.

Whether that is a fault is a question of how much follows: a value with a few closing words behind
it stands where it belongs.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from prompts.lint.part import Located
from prompts.lint.pieces import Fork, Loop, Nature
from prompts.lint.vocabulary import VOLATILITY, Kind
from prompts.segments import Volatility

# About a page of 64 tokens: so much text behind a value is always worth sharing.
_PAGE_CHARACTERS = 256
# A sentence or so: worth sharing if less than that stands in front of the value.
_SENTENCE_CHARACTERS = 20
_PARAGRAPH_CHARACTERS = 60

_FLOORS = {
    Kind.CONTEXT: _PARAGRAPH_CHARACTERS,
    Kind.QUESTION: _PAGE_CHARACTERS,
    Kind.INPUT: _PAGE_CHARACTERS,
    Kind.HISTORY: _PAGE_CHARACTERS,
    Kind.EXAMPLES: _PAGE_CHARACTERS,
    Kind.TOOLS: _PAGE_CHARACTERS,
}

# Kinds whose names tell more than a declaration of a lower volatility.
_TELLING = (Kind.CLOCK, Kind.ID, Kind.RANDOM, Kind.USER)

# Kinds that cost a conversation or documents behind them too: not even the next turn re-uses them.
_EPHEMERAL = (Kind.CLOCK, Kind.RANDOM, Kind.SAMPLE)

# The first of a value's kinds in this order names the cause.
_CAUSES = (
    Kind.SAMPLE, Kind.CLOCK, Kind.RANDOM, Kind.ID, Kind.ENVIRONMENT, Kind.TOOL_CHOICE,
    Kind.SUMMARY, Kind.QUESTION, Kind.USER, Kind.CONTEXT, Kind.HISTORY, Kind.INPUT,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Break:
    """A piece that ends the prefix too early; `cause` None: its declaration says that it changes.

    `proven`: seen as a call or declared, not only guessed from a name; of a fork: its condition is
    known to change.
    """

    at: Located
    cause: Kind | None
    proven: bool
    volatility: Volatility

    @property
    def forks(self) -> bool:
        """Whether a conditional is what breaks it."""
        return isinstance(self.at.piece, Fork)


def find_breaks(located: Iterable[Located]) -> Iterator[Break]:
    """The breaks among a prompt's pieces, in order."""
    looped: frozenset[Kind] = frozenset()
    forked = False
    for at in located:
        if isinstance(at.piece, Loop):
            looped |= at.piece.nature.proven
        found = _fork(at) if isinstance(at.piece, Fork) else _value(at, looped)
        if found is None or (found.forks and not found.proven and forked):
            continue
        forked |= found.forks
        yield found


def _value(at: Located, looped: frozenset[Kind]) -> Break | None:
    """The break at a value; `looped` kinds were reported at the loop that the value is in."""
    nature = at.piece.nature
    cause = _cause(nature)
    sampled = cause is Kind.RANDOM and Kind.EXAMPLES in nature.kinds
    cause = Kind.SAMPLE if sampled else cause
    if at.piece.nested and not (nature.proven - looped) & {Kind.CLOCK, Kind.RANDOM}:
        return None
    volatility = _volatility(nature, cause)
    if volatility is Volatility.STATIC or not _loses(at, cause):
        return None
    return Break(at, cause, _is_proven(nature, cause), volatility)


def _is_proven(nature: Nature, cause: Kind | None) -> bool:
    """Whether more than a name says so: a call, a loop over documents, a declaration.

    What is declared to change at all breaks the prefix, whether or not it is what its name says.
    """
    if cause is None or cause is Kind.CONTEXT or cause in nature.proven:
        return True
    if cause is Kind.SAMPLE and Kind.RANDOM in nature.proven:
        return True
    return nature.declared not in (None, Volatility.STATIC)


def _cause(nature: Nature) -> Kind | None:
    """What names the break: a proven kind before a suspected one."""
    for kinds in (nature.proven, nature.kinds):
        for kind in _CAUSES:
            if kind in kinds:
                return kind
    return None


def _volatility(nature: Nature, cause: Kind | None) -> Volatility:
    """How often it changes; a declaration is believed unless the name contradicts it."""
    natural = VOLATILITY[cause] if cause else Volatility.STATIC
    if nature.declared is None:
        return natural
    return max(natural, nature.declared) if cause in _TELLING else nature.declared


def _loses(at: Located, cause: Kind | None) -> bool:
    if cause is Kind.QUESTION and at.context_behind:
        return True
    if at.behind >= _PAGE_CHARACTERS:
        return True
    if cause in _EPHEMERAL and (at.history_behind or at.context_behind) and not at.in_last_turn:
        return True
    floor = _SENTENCE_CHARACTERS
    if cause is not None and at.piece.nature.declared is None:
        floor = _FLOORS.get(cause, floor)
    return not at.in_last_turn and at.behind >= floor and at.behind > at.before


def _fork(at: Located) -> Break | None:
    """A branch whose text doesn't only carry an optional value, in front of shared text.

    A flag of which nothing is known may be a constant of the deployment: only the first one is
    looked at, and only near the beginning.
    """
    fork = at.piece
    assert isinstance(fork, Fork)
    kinds, declared = fork.nature.kinds, fork.nature.declared
    if fork.nested or fork.empty or kinds & {Kind.HISTORY, Kind.TOOLS, Kind.EXAMPLES}:
        return None
    if declared is Volatility.STATIC or (fork.outputs and fork.nature.names <= fork.outputs):
        return None
    proven = declared is not None or bool(kinds)
    early = at.before < min(at.behind, _PAGE_CHARACTERS) and at.behind >= _SENTENCE_CHARACTERS
    if not (_loses(at, Kind.USER) if proven else early):
        return None
    return Break(at, None, proven, declared or Volatility.TENANT)
