"""A part of a prompt source: a template's segment, or the whole of a plain prompt file."""

from dataclasses import dataclass
from typing import Protocol

from prompts.invisible import InvisibleKind
from prompts.lint.findings import Edit, Place
from prompts.lint.jinja_source import JinjaSource
from prompts.lint.pieces import Facts, Fork, Loop, Piece, Value
from prompts.segments import Volatility


class Locator(Protocol):
    """From characters of a part's text to its file."""

    def place(self, start: int, stop: int) -> Place:
        """Where the characters `start <= i < stop` stand in the file."""

    def edit(self, start: int, stop: int, text: str) -> Edit | None:
        """The file edit that replaces them; None where the file's syntax doesn't allow one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One contiguous piece of source text.

    `last_turn` is the character from which on it belongs to the prompt's last user turn (None:
    no character does). `allow` names the invisible characters that are meant. `jinja` is None for
    text that isn't Jinja.
    """

    text: str
    facts: Facts
    locator: Locator
    segment: str | None = None
    role: str | None = None
    volatility: Volatility | None = None
    last_turn: int | None = None
    allow: frozenset[InvisibleKind] = frozenset()
    jinja: JinjaSource | None = None

    def place(self, piece: Piece) -> Place:
        """Where a piece stands in the file."""
        return self.locator.place(piece.start, piece.stop)

    def label(self, piece: Piece) -> str:
        """A piece as it is written, shortened for a message."""
        words = " ".join(self.text[piece.start : piece.stop].split())
        return words if len(words) <= 60 else f"{words[:57]}…"

    def tag_place(self, offset: int) -> Place:
        """The place of the tag that an offset lies in."""
        start, stop = self.jinja.tag(offset) if self.jinja else (offset, offset + 1)
        return self.locator.place(start, stop)

    def tag_label(self, offset: int) -> str:
        """The tag that an offset lies in, as it is written."""
        return self.jinja.label(offset) if self.jinja else ""


@dataclass(frozen=True, slots=True)
class Located:
    """A piece with its part and what stands around it; `index` counts the prompt's pieces.

    `before` and `behind` count characters of literal text that is always sent; `behind` stops at a
    conversation, whose text can't be moved in front.
    """

    part: Part
    piece: Value | Fork | Loop
    index: int
    before: int
    behind: int
    context_behind: bool
    history_behind: bool

    @property
    def in_last_turn(self) -> bool:
        """Whether it stands in the last user turn, where values belong."""
        last = self.part.last_turn
        return last is not None and self.piece.start >= last
