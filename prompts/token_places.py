"""Where the segments of a prompt lie in its rendered text."""

from collections.abc import Sequence

from prompts.chat_shapes import Piece
from prompts.segments import Prompt, RenderedSegment

_CONTENT = "content"


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


def segment_characters(
    prompt: Prompt, pieces: Sequence[Piece]
) -> list[tuple[RenderedSegment, int, int]]:
    """Each segment with the characters `start <= i < stop` it takes in the rendered text.

    Text that the chat template drops takes none.
    """
    places = _places(pieces)
    located: list[tuple[RenderedSegment, int, int]] = []
    message, offset, last = -1, 0, 0
    for segment in prompt.segments:
        if segment.message != message:
            message, offset = segment.message, 0
        if segment.expanded:
            span = range(message, message + len(segment.expanded))
            seen = [places[index] for index in span if index in places]
            start = min((p.start or 0 for p in seen), default=last)
            stop = max((p.stop for p in seen), default=start)
        elif message in places:
            start = places[message].of_content(offset)
            offset += len(segment.text)
            stop = max(start, places[message].of_content(offset))
        else:
            start = stop = last
        located.append((segment, start, stop))
        last = stop
    return located


def _places(pieces: Sequence[Piece]) -> dict[int, _MessagePlaces]:
    places: dict[int, _MessagePlaces] = {}
    position = 0
    for piece in pieces:
        if piece.origin is not None and piece.origin.message is not None:
            places.setdefault(piece.origin.message, _MessagePlaces()).add(piece, position)
        position += len(piece.text)
    return places
