"""Where segments, and their documents, messages and tools, lie in a rendered prompt."""

from collections.abc import Sequence
from typing import NamedTuple

from prompts.chat_shapes import Piece
from prompts.layout import PartPlace, SegmentPlace
from prompts.segments import Prompt, RenderedSegment

_CONTENT = "content"


class PromptPlaces(NamedTuple):
    """Places in characters of the rendered text; `tools` from the first tool to the last."""

    segments: tuple[SegmentPlace, ...]
    tools: tuple[int, int] | None


class _MessagePlaces:
    """Where one message's text came to lie; a chat template may trim, cut or move it."""

    def __init__(self) -> None:
        self.start: int | None = None
        self.stop = 0
        self._contents: list[tuple[int, int, int]] = []

    def add(self, piece: Piece, position: int) -> None:
        """Take in one more piece, at this character of the rendered text."""
        self.start = position if self.start is None else min(self.start, position)
        self.stop = max(self.stop, position + len(piece.text))
        if piece.origin is not None and piece.origin.field == _CONTENT:
            self._contents.append((piece.offset, position, len(piece.text)))

    def of_content(self, offset: int) -> int:
        """Where the first character of the content at or after `offset` lies."""
        for first, position, length in sorted(self._contents):
            if offset < first + length:
                return position + max(0, offset - first)
        return self.stop

    def shift(self, start: int, stop: int) -> int | None:
        """How far characters `start <= i < stop` of the content lie behind their offsets.

        None where the chat template trimmed or cut them.
        """
        for first, position, length in self._contents:
            if first <= start and stop <= first + length:
                return position - first
        return None


def prompt_places(prompt: Prompt, pieces: Sequence[Piece]) -> PromptPlaces:
    """Each segment with the characters it takes, and with its documents or messages.

    Text that the chat template drops takes none.
    """
    places = _places(pieces)
    located: list[SegmentPlace] = []
    message, offset, last = -1, 0, 0
    for segment in prompt.segments:
        if segment.message != message:
            message, offset = segment.message, 0
        parts: Sequence[PartPlace] = ()
        if segment.expanded:
            parts = _messages(segment, places)
            start = min((part.start for part in parts), default=last)
            stop = max((part.stop for part in parts), default=start)
        elif message in places:
            start = places[message].of_content(offset)
            parts = _documents(segment, offset, places[message])
            offset += len(segment.text)
            stop = max(start, places[message].of_content(offset))
        else:
            start = stop = last
        located.append(SegmentPlace(segment, start, stop, parts))
        last = stop
    tools = places.get(None)
    return PromptPlaces(
        tuple(located), None if tools is None or tools.start is None else (tools.start, tools.stop)
    )


def _messages(
    segment: RenderedSegment, places: dict[int | None, _MessagePlaces]
) -> Sequence[PartPlace]:
    parts: list[PartPlace] = []
    for number, message in enumerate(segment.expanded):
        place = places.get(segment.message + number)
        if place is not None and place.start is not None:
            name = f"message {number + 1} ({message.role})"
            parts.append(PartPlace(name, place.start, place.stop))
    return parts


def _documents(segment: RenderedSegment, offset: int, place: _MessagePlaces) -> Sequence[PartPlace]:
    if not segment.documents:
        return ()
    shift = place.shift(offset, offset + len(segment.text))
    if shift is not None:
        shift += offset
        return [PartPlace(d.name, d.start + shift, d.stop + shift) for d in segment.documents]
    return [
        PartPlace(d.name, place.of_content(offset + d.start), place.of_content(offset + d.stop))
        for d in segment.documents
    ]


def _places(pieces: Sequence[Piece]) -> dict[int | None, _MessagePlaces]:
    """The places of each message, and under None those of the tools."""
    places: dict[int | None, _MessagePlaces] = {}
    position = 0
    for piece in pieces:
        if piece.origin is not None:
            places.setdefault(piece.origin.message, _MessagePlaces()).add(piece, position)
        position += len(piece.text)
    return places
