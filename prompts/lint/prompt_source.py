"""A prompt's source as the rules see it: parts in sent order, whatever file they come from."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import takewhile

from prompts.lint.breaks import Break, find_breaks
from prompts.lint.part import Located, Part
from prompts.lint.pieces import Fork, Piece, Text
from prompts.lint.source_file import SourceFile
from prompts.lint.vocabulary import Kind
from prompts.template import Template


@dataclass(frozen=True, slots=True)
class Literal:
    """Text that is always sent, and the role it is sent under."""

    role: str
    text: str


@dataclass(frozen=True, kw_only=True)
class PromptSource:
    """All of one prompt.

    `template` is set for template files. `raw` says that the text spells its own chat marks: it
    is sent as it is, without a chat template.
    """

    source: SourceFile
    parts: tuple[Part, ...]
    template: Template | None = None
    raw: bool = False

    @cached_property
    def pieces(self) -> tuple[tuple[Part, Piece], ...]:
        """All pieces in sent order."""
        return tuple((part, piece) for part in self.parts for piece in part.facts.pieces)

    @cached_property
    def located(self) -> tuple[Located, ...]:
        """The pieces that aren't literal text, with what stands around them."""
        return tuple(_located(self.pieces))

    @cached_property
    def breaks(self) -> tuple[Break, ...]:
        """Where the shared prefix ends although text that is always the same follows."""
        return tuple(find_breaks(self.located))

    def texts(self) -> Iterator[tuple[Part, Text]]:
        """The literal text."""
        for part, piece in self.pieces:
            if isinstance(piece, Text):
                yield part, piece

    def literal_before(self, index: int) -> list[Literal] | None:
        """The text in front of a piece, by role; None if some of it isn't literal."""
        return _literals(self.pieces[:index]) if index <= self._leading_literals else None

    @cached_property
    def _leading_literals(self) -> int:
        """How many pieces are literal text that is always sent, before the first that isn't."""
        literal = (isinstance(piece, Text) and piece.certain for _, piece in self.pieces)
        return sum(1 for _ in takewhile(bool, literal))

    def literal_behind(self, index: int) -> list[Literal]:
        """The literal text behind a piece, up to a conversation."""
        return _literals(_until_history(self.pieces[index + 1 :]))


def _literals(pieces: Iterable[tuple[Part, Piece]]) -> list[Literal]:
    """Literal text, joined where neighbours are of one role."""
    found: list[Literal] = []
    for part, piece in pieces:
        if not isinstance(piece, Text) or not piece.certain:
            continue
        role = part.role or "user"
        if found and found[-1].role == role:
            found[-1] = Literal(role, found[-1].text + piece.text)
        else:
            found.append(Literal(role, piece.text))
    return found


def _until_history(
    pieces: Iterable[tuple[Part, Piece]],
) -> Iterator[tuple[Part, Piece]]:
    for part, piece in pieces:
        if not isinstance(piece, Text | Fork) and Kind.HISTORY in piece.nature.kinds:
            return
        yield part, piece


def _located(pieces: tuple[tuple[Part, Piece], ...]) -> Iterator[Located]:
    behind = [0] * (len(pieces) + 1)
    context = [False] * (len(pieces) + 1)
    history = [False] * (len(pieces) + 1)
    for index in range(len(pieces) - 1, -1, -1):
        _, piece = pieces[index]
        behind[index], context[index] = behind[index + 1], context[index + 1]
        history[index] = history[index + 1]
        if isinstance(piece, Text):
            behind[index] += _weight(piece)
        elif not isinstance(piece, Fork):
            context[index] |= Kind.CONTEXT in piece.nature.kinds
            if Kind.HISTORY in piece.nature.kinds:
                behind[index], history[index] = 0, True
    before = 0
    for index, (part, piece) in enumerate(pieces):
        if isinstance(piece, Text):
            before += _weight(piece)
        else:
            after = index + 1
            yield Located(part, piece, index, before, behind[after], context[after], history[after])


def _weight(piece: Text) -> int:
    return len(piece.text.strip()) if piece.certain else 0
