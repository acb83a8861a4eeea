"""Which tokens of a prompt are whose: segments, the documents and messages in them, and the tools.

Places are known in characters of the rendered text; each is turned into tokens exactly, without
the text being cut there when it is encoded.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import field
from typing import NamedTuple

from prompts.records import record
from prompts.segments import RenderedSegment, Volatility
from prompts.token_cache import EncodedSpan

_LONGEST_PART = 32_768


class PartPlace(NamedTuple):
    """A document or message within a segment: characters `start <= i < stop`."""

    name: str
    start: int
    stop: int


class SegmentPlace(NamedTuple):
    """A segment, the characters `start <= i < stop` it takes, and its documents or messages."""

    segment: RenderedSegment
    start: int
    stop: int
    parts: Sequence[PartPlace]


class PlacedSpan(NamedTuple):
    """A span with its first character and its first token; a control token has no `encoded`."""

    character: int
    token: int
    encoded: EncodedSpan | None

    def token_at(self, character: int) -> int:
        """Index of the first token that starts at or after a character of this span."""
        if self.encoded is None:
            return self.token + (character > self.character)
        return self.token + bisect_left(self.encoded.starts, character - self.character)


@record
class PromptLayout:
    """Segments and tools of a prompt in characters, and the spans that were encoded.

    `tools` are the characters from the first to the last that a tool's text takes; None where the
    chat template shows no tools. `characters` are those at which the spans begin.
    """

    segments: tuple[SegmentPlace, ...]
    tools: tuple[int, int] | None
    spans: Sequence[PlacedSpan]
    characters: Sequence[int] = field(repr=False)

    @property
    def cuts(self) -> set[int]:
        """Characters at which the text was divided when it was encoded."""
        return cuts_of(self.segments)

    def span_at(self, character: int) -> PlacedSpan | None:
        """The span that a character lies in or after; None before the first."""
        index = bisect_right(self.characters, character) - 1
        return self.spans[index] if index >= 0 else None

    def token_at(self, character: int) -> int:
        """Index of the first token that starts at or after a character of the text."""
        span = self.span_at(character)
        return 0 if span is None else span.token_at(character)


def cuts_of(segments: Iterable[SegmentPlace]) -> set[int]:
    """Where the text is divided into parts, each of which is encoded once: segments, and documents
    of a whole collection, to which others are added later."""
    cuts: set[int] = set()
    for segment, start, stop, parts in segments:
        cuts.update((start, stop))
        if segment.documents and segment.volatility is Volatility.COLLECTION:
            for part in parts:
                # A long one in pieces: Python stands still while it takes over a text's tokens.
                cuts.update(range(part.start + _LONGEST_PART, part.stop, _LONGEST_PART))
                cuts.add(part.stop)
    return cuts
