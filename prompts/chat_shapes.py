"""Renderings of a chat template, kept as shapes to fill with other contents.

A template is a program; run on watched contents, it tells what it asked of them. Where all its
questions have the same answers again, it would write the same words around the same holes. Shapes
are kept under the structure of the messages: everything a template sees of them but their texts.
"""

import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from prompts.chat_rope import Origin, Rope
from prompts.chat_watch import QUESTIONS, Hole, Trim, Watch, Watched, leaves
from prompts.segments import Message, ToolCall

# Of all shapes together: texts, holes and guards. Some 30 MB.
_CAPACITY = 200_000
_STRUCTURE_WEIGHT = 16
# A conversation can be long, and so can be what it was asked.
_MOST_VARIANTS = 8
_MOST_FAILURES = 4
_CONTENT = "content"
# The origin of what is before the first piece.
_NOTHING = object()


class Piece(NamedTuple):
    """A part of the rendered text: from `offset` on in its origin, or the template's own."""

    text: str
    origin: Origin | None = None
    offset: int = 0


class Guarded(NamedTuple):
    """A question about a content, and the answer that it must have."""

    trims: tuple[Trim, ...]
    test: Callable[[str, Any], bool]
    argument: Any
    answer: bool

    def holds(self, content: str) -> bool:
        """Whether it has that answer for another content."""
        for trim in self.trims:
            content, _ = trim.apply(content)
        return self.test(content, self.argument) is self.answer


class _Asked(NamedTuple):
    """A guard: the answer to a question about one of the shape's texts."""

    text: int
    test: Callable[[str, Any], bool]
    argument: Any
    answer: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """A rendering with holes: pieces, and numbers of texts that go between them."""

    texts: tuple[Hole, ...]
    asked: tuple[_Asked, ...]
    parts: tuple[Piece | int, ...]

    @classmethod
    def of(cls, rendered: str, watch: Watch) -> "Shape":
        """The shape of a rendering that was followed to its end."""
        numbers: dict[Hole, int] = {}
        asked = tuple(
            _Asked(numbers.setdefault(hole, len(numbers)), QUESTIONS[question], argument, answer)
            for (hole, question, argument), answer in watch.answers.items()
        )
        parts: list[Piece | int] = []
        for leaf in leaves(rendered):
            if isinstance(leaf, Watched) and leaf.hole is not None:
                parts.append(numbers.setdefault(leaf.hole, len(numbers)))
            else:
                for piece in cut(leaf):
                    _append(parts, piece)
        return cls(texts=tuple(numbers), asked=asked, parts=tuple(parts))

    @property
    def weight(self) -> int:
        """What keeping it costs, in texts."""
        return len(self.texts) + len(self.asked) + len(self.parts)

    def filled(self, messages: Sequence[Message]) -> list[Piece] | None:
        """The pieces with the contents of other messages; None where a guard says otherwise."""
        texts: list[Piece] = []
        for hole in self.texts:
            origin, trims = hole
            if trims:
                texts.append(_text(hole, messages))
            else:
                texts.append(Piece(getattr(messages[origin.message or 0], origin.field), origin))
        for number, test, argument, answer in self.asked:
            if test(texts[number].text, argument) is not answer:
                return None
        made: list[Piece] = []
        before: object = _NOTHING
        for part in self.parts:
            piece = texts[part] if isinstance(part, int) else part
            if not piece.text:
                continue
            if piece.origin == before:
                _append(made, piece)
            else:  # of another whole than the one before
                made.append(piece)
            before = piece.origin
        return made

    def asked_of(self, message: int) -> tuple[tuple[Trim, ...], tuple[Guarded, ...]] | None:
        """How a message's content is trimmed where it is shown, and what is asked of it.

        None unless the content is shown, once, and nothing else of that message.
        """
        shown = [self.texts[part] for part in self.parts if isinstance(part, int)]
        fixed = [part.origin for part in self.parts if isinstance(part, Piece) and part.origin]
        mine = [hole for hole in shown if hole.origin.message == message]
        if len(mine) != 1 or any(origin.message == message for origin in fixed):
            return None
        guards: list[Guarded] = []
        for number, test, argument, answer in self.asked:
            hole = self.texts[number]
            if hole.origin.message != message:
                continue
            if hole.origin.field != _CONTENT:
                return None
            guards.append(Guarded(hole.trims, test, argument, answer))
        return (mine[0].trims, tuple(guards)) if mine[0].origin.field == _CONTENT else None


def _text(hole: Hole, messages: Sequence[Message]) -> Piece:
    origin, trims = hole
    index, name = origin
    text, offset = getattr(messages[index or 0], name), 0
    for trim in trims:
        text, skipped = trim.apply(text)
        offset += skipped
    return Piece(text, origin, offset)


def _append(pieces: list[Any], piece: Piece) -> None:
    """Add a piece, joined with the one before where they are of one whole."""
    last = pieces[-1] if pieces else None
    if (
        isinstance(last, Piece)
        and last.origin == piece.origin
        and (piece.origin is None or piece.offset == last.offset + len(last.text))
    ):
        pieces[-1] = Piece(last.text + piece.text, last.origin, last.offset)
    else:
        pieces.append(piece)


def cut(rendered: str) -> list[Piece]:
    """A rendered text, cut where one origin ends and another begins."""
    if not isinstance(rendered, Rope):
        return [Piece(rendered)] if rendered else []
    pieces: list[Piece] = []
    slice_of = rendered.plain_slice
    start = stop = first = 0
    origin: Origin | None = None
    for length, whose, offset in rendered.parts:
        if stop == start or whose != origin or (whose and offset != first + stop - start):
            if stop > start:
                pieces.append(Piece(slice_of(start, stop), origin, first))
            start, origin, first = stop, whose, offset
        stop += length
    return [*pieces, Piece(slice_of(start, stop), origin, first)]


class Structure(NamedTuple):
    """All that a template sees beside texts: the tools by number, and each message's form."""

    tools: int
    messages: tuple[str | tuple[str, bool, bool, bool, tuple[ToolCall, ...]], ...]

    @classmethod
    def of(cls, messages: Sequence[Message], tools: int) -> "Structure":
        """The structure of a conversation."""
        return cls(tools, tuple([_form(message) for message in messages]))


def _form(
    message: Message,
) -> str | tuple[str, bool, bool, bool, tuple[ToolCall, ...]]:
    given, name, reasoning = message.tool_call_id, message.name, message.reasoning
    if given is None and name is None and reasoning is None and not message.tool_calls:
        return message.role
    return (
        message.role,
        given is not None,
        name is not None,
        reasoning is not None,
        message.tool_calls,
    )


@dataclass(slots=True)
class _Known:
    """The shapes of one structure, the one that fitted last first, and how often none was made."""

    shapes: tuple[Shape, ...] = ()
    failures: int = 0
    weight: int = 0


@dataclass(slots=True)
class Shapes:
    """The shapes of one template: the least recently used are dropped. Threads may share it."""

    capacity: int = _CAPACITY
    _known: OrderedDict[Structure, _Known] = field(default_factory=OrderedDict)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _held: int = 0

    @property
    def held(self) -> int:
        """The weight of all that is kept."""
        return self._held

    def pieces(self, structure: Structure, messages: Sequence[Message]) -> list[Piece] | None:
        """The pieces of messages, if a shape fits them."""
        fitting = self.fitting(structure, messages)
        return None if fitting is None else fitting[1]

    def fitting(
        self, structure: Structure, messages: Sequence[Message]
    ) -> tuple[Shape, list[Piece]] | None:
        """The shape that fits messages, if one is kept, filled with them."""
        with self._lock:
            known = self._known.get(structure)
            if known is None:
                return None
            self._known.move_to_end(structure)
            shapes = known.shapes
        for position, shape in enumerate(shapes):
            made = shape.filled(messages)
            if made is not None:
                if position:
                    known.shapes = (shape, *(other for other in shapes if other is not shape))
                return shape, made
        return None

    def is_hopeless(self, structure: Structure) -> bool:
        """Whether it is not worth watching these messages."""
        known = self._known.get(structure)
        return known is not None and known.failures >= _MOST_FAILURES

    def add(self, structure: Structure, shape: Shape | None) -> None:
        """Keep a shape; None: the rendering could not be followed."""
        with self._lock:
            known = self._known.setdefault(structure, _Known())
            self._held -= known.weight
            if shape is None:
                known.failures += 1
            else:
                known.shapes = (shape, *known.shapes)[:_MOST_VARIANTS]
            shapes = sum(kept.weight for kept in known.shapes)
            known.weight = _STRUCTURE_WEIGHT + len(structure.messages) + shapes
            self._held += known.weight
            while self._held > self.capacity:
                _, dropped = self._known.popitem(last=False)
                self._held -= dropped.weight
