"""All of a prompt but the text of its last message, made once: only that text is new each time.

A stem knows the ids before and after the stretch of text that the last message lies in, which
questions the chat template asks of it, and what of the prompt's places moves with it. What it makes
is what rendering and encoding the whole would make, byte for byte; where it can't know that, it
makes nothing.
"""

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import field
from hashlib import blake2b
from typing import Any, NamedTuple

from prompts.chat_shapes import Guarded, Piece
from prompts.chat_watch import Trim
from prompts.layout import PartPlace, PlacedSpan, PromptLayout, SegmentPlace, cuts_of
from prompts.records import record
from prompts.segments import (
    Message,
    Prompt,
    RenderedSegment,
    SegmentTokens,
    TokenizedPrompt,
    scaffold_stop,
)
from prompts.token_cache import EncodedSpan
from prompts.token_runs import ID_BYTES
from prompts.tokens import PromptTokenizer

_OBJECTS_BYTES = 4_000
# A token id packed and as JSON, the pair of a span and its place, a page's key.
_TOKEN_BYTES = 16
_SCAFFOLD, _CUTS = "scaffold tokens", "cuts"


class Stretch(NamedTuple):
    """What is encoded together with the last message's text: parts and text around it."""

    front: tuple[str, ...]
    before: str
    after: str
    back: tuple[str, ...]

    def parts(self, text: str) -> tuple[str, ...]:
        return (*self.front, f"{self.before}{text}{self.after}", *self.back)


@record
class PromptStem:
    """What `stem_of` found of a prompt; immutable but for its notes. Threads may share it.

    Attributes:
        prompt: one of those that begin so.
        tokens: how many leading ids all of them have in common.
        hashed: a digest of those, packed; to be copied.
        notes: for what a reader found out about that beginning and wants to find again.
        lasting: the same, of what is as true of every longer beginning.
        front: pieces of the rendered text before the last message's.
        opening: those of them that lie in the stretch.
        closing: the text behind the last message's.
        start, text_at: characters of the rendered text: the stretch, and the last message in it.
    """

    tokenizer: PromptTokenizer = field(repr=False)
    prompt: Prompt
    tokens: int
    packed: bytes = field(repr=False)
    hashed: blake2b = field(repr=False, compare=False)
    notes: dict[object, Any] = field(default_factory=dict, compare=False, repr=False)
    lasting: dict[object, Any] = field(default_factory=dict, compare=False, repr=False)
    last_ids: tuple[int, ...] = field(repr=False)
    last_packed: bytes = field(repr=False)
    trims: tuple[Trim, ...]
    guards: tuple[Guarded, ...]
    stretch: Stretch = field(repr=False)
    front: tuple[Piece, ...] = field(repr=False)
    opening: tuple[Piece, ...] = field(repr=False)
    closing: str = field(repr=False)
    start: int
    text_at: int
    places: tuple[SegmentPlace, ...] = field(repr=False)
    tools: tuple[int, int] | None = field(repr=False)
    ranges: tuple[SegmentTokens, ...] = field(repr=False)
    spans: Sequence[PlacedSpan] = field(repr=False)
    last_spans: Sequence[PlacedSpan] = field(repr=False)

    @property
    def held_bytes(self) -> int:
        """What it keeps in memory, about."""
        characters = sum(len(message.content) for message in self.prompt.messages)
        return _OBJECTS_BYTES + _TOKEN_BYTES * self.tokens + characters

    def prompt_with(self, content: str) -> "StemPrompt | None":
        """The prompt whose last message has this canonical content.

        None where only rendering the whole can tell how it looks.
        """
        text = content
        for trim in self.trims:
            text, _ = trim.apply(text)
        if not text:
            return None
        for guard in self.guards:
            if not guard.holds(content):
                return None
        front, before, after, back = self.stretch
        encoded = self.tokenizer.cache.encode_anew((*front, f"{before}{text}{after}", *back))
        return StemPrompt(self, content, encoded, self.text_at + len(text))

    def shown(self, content: str) -> tuple[str, EncodedSpan] | None:
        """A last message's text as it is shown, and the stretch around it; None as above."""
        text = content
        for trim in self.trims:
            text, _ = trim.apply(text)
        if not text or not all(guard.holds(content) for guard in self.guards):
            return None
        return text, self.tokenizer.cache.encode(self.stretch.parts(text))

    @property
    def ids(self) -> Sequence[int]:
        """The leading ids that all have in common."""
        return _unpacked(self.packed)

    def scaffold_tokens(self) -> int | None:
        """Leading tokens of static segments; None where the last message is in one of them."""
        if _SCAFFOLD not in self.notes:
            self.notes[_SCAFFOLD] = scaffold_stop(self.ranges)
        return self.notes[_SCAFFOLD]  # type: ignore[no-any-return]

    def cuts(self) -> frozenset[int]:
        """Where the text is divided, but for the last message's end."""
        known = self.notes.get(_CUTS)
        if known is None:
            last = self.places[-1]
            known = self.notes[_CUTS] = frozenset((*cuts_of(self.places[:-1]), last.start))
        return known

    def last_segment(self, content: str) -> RenderedSegment:
        """The conversation's segment with another last message."""
        old = self.places[-1].segment
        message = Message(role=old.expanded[-1].role, content=content)
        return RenderedSegment(
            id=old.id,
            role=old.role,
            volatility=old.volatility,
            text=old.text,
            message=old.message,
            expanded=(*old.expanded[:-1], message),
        )

    def last_place(self, segment: RenderedSegment, stop: int) -> SegmentPlace:
        """Where that lies, if it ends with this character."""
        known = self.places[-1]
        *parts, last = known.parts
        return SegmentPlace(
            segment, known.start, stop, [*parts, PartPlace(last.name, last.start, stop)]
        )

    def moved(self, stop: int, ids: int) -> Sequence[PlacedSpan]:
        """The spans behind the stretch; their places are as if that were empty."""
        by = stop + len(self.stretch.after) + sum(map(len, self.stretch.back))
        return [
            PlacedSpan(character + by, self.tokens + ids + token, encoded)
            for character, token, encoded in self.last_spans
        ]


class StemPrompt(TokenizedPrompt):
    """A prompt of a stem; its ids as numbers, and where its parts lie, are only for who asks.

    Equal to what encoding the whole makes of it.
    """

    __slots__ = ("_encoded", "_ids", "_made_layout", "_stop")
    stem: PromptStem

    def __init__(self, stem: PromptStem, content: str, encoded: EncodedSpan, stop: int) -> None:
        """Args: `stop` is the character of the text at which the last message ends."""
        self.prompt = stem.prompt.with_last(stem.last_segment(content))  # type: ignore[misc]
        self.packed = b"".join(  # type: ignore[misc]
            (stem.packed, encoded.packed, stem.last_packed)
        )
        self.stem = stem
        self._encoded = encoded
        self._stop = stop
        self._ids: tuple[int, ...] | None = None
        self._made_layout: PromptLayout | None = None

    @property
    def tokens(self) -> int:
        """As `TokenizedPrompt` has them."""
        return len(self.packed) // ID_BYTES

    @property
    def token_ids(self) -> tuple[int, ...]:
        """As `TokenizedPrompt` has them."""
        if self._ids is None:
            self._ids = tuple(_unpacked(self.packed))
        return self._ids

    def ids_from(self, start: int) -> Sequence[int]:
        """As `TokenizedPrompt` has them."""
        return _unpacked(self.packed[start * ID_BYTES :])

    @property
    def layout(self) -> PromptLayout:
        """As `TokenizedPrompt` has it."""
        if self._made_layout is None:
            stem, segment = self.stem, self.prompt.segments[-1]
            moved = stem.moved(self._stop, len(self._encoded.ids))
            spans = [*stem.spans, PlacedSpan(stem.start, stem.tokens, self._encoded), *moved]
            self._made_layout = PromptLayout(
                segments=(*stem.places[:-1], stem.last_place(segment, self._stop)),
                tools=stem.tools,
                spans=spans,
                characters=[placed.character for placed in spans],
            )
        return self._made_layout

    @property
    def ranges(self) -> tuple[SegmentTokens, ...]:
        """As `TokenizedPrompt` has them."""
        stem = self.stem
        start, place = stem.ranges[-1].start, stem.places[-1]
        if place.start >= stem.start:
            start = self._token_at(place.start)
        last = SegmentTokens(
            segment=self.prompt.segments[-1], start=start, stop=self._token_at(self._stop)
        )
        return (*stem.ranges[:-1], last)

    @property
    def last_message(self) -> tuple[int, int]:
        """Tokens `start <= i < stop` of the last message."""
        stem, encoded = self.stem, self._encoded
        start = stem.places[-1].parts[-1].start
        if start < stem.start:
            return self.layout.token_at(start), self._token_at(self._stop)
        return (
            stem.tokens + bisect_left(encoded.starts, start - stem.start),
            stem.tokens + bisect_left(encoded.starts, self._stop - stem.start),
        )

    @property
    def cuts(self) -> Iterable[int]:
        """As `TokenizedPrompt` has them."""
        return self.stem.cuts() | {self._stop}

    @property
    def scaffold_tokens(self) -> int:
        """As `TokenizedPrompt` has them."""
        known = self.stem.scaffold_tokens()
        return self.ranges[-1].stop if known is None else known

    def _token_at(self, character: int) -> int:
        """Index of the first token that starts at or after a character of the stretch."""
        stem = self.stem
        return stem.tokens + bisect_left(self._encoded.starts, character - stem.start)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, TokenizedPrompt):
            return NotImplemented
        mine = (self.prompt, self.token_ids, self.ranges)
        return mine == (other.prompt, other.token_ids, other.ranges)

    def __hash__(self) -> int:
        return hash((self.prompt, self.token_ids, self.ranges))


def _unpacked(packed: bytes) -> list[int]:
    return memoryview(packed).cast("I").tolist()
