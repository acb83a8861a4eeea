"""The pieces of a prompt that can stay the same while others change, with where their tokens lie.

A piece is a segment, a document within a segment, a message of a conversation, or the tools. Two
pieces with one digest are the same tokens, wherever they stand. What was worked out for a span of
the prompt is kept with that span, so that documents seen before cost next to nothing.
"""

from collections.abc import Iterator, Sequence
from hashlib import blake2b
from typing import cast

import msgspec

from prompts import PromptStem, StemPrompt, TokenizedPrompt, Volatility
from prompts.layout import PlacedSpan, PromptLayout, SegmentPlace

TOOLS = "tools"
ID_BYTES = 4
DIGEST_BYTES = 16
_NOTES_KEPT = 64
_PIECES = "pieces"


class Piece(msgspec.Struct, kw_only=True, frozen=True, gc=False):
    """Tokens `start <= i < stop` of a prompt that belong together.

    Attributes:
        segment: the template's id of the segment; `tools` for the tools.
        volatility: how often it changes, a `prompts.Volatility`.
        own_stop: where its own text ends; what the template writes between documents follows.
        document: the document's name, or the message's place and role; None for a whole segment.
        message: whether it is a message of a conversation.
        digest: of the token ids of its own text. The last of them doesn't count where text may
            follow that merges into it, so that a document is the same wherever it stands.
    """

    segment: str
    volatility: int
    start: int
    stop: int
    own_stop: int
    document: str | None = None
    message: bool = False
    digest: bytes = b""


def pieces_of(prompt: TokenizedPrompt) -> tuple[Piece, ...]:
    """The pieces of a prompt in the order of their places; they never overlap.

    A segment with documents has a piece for each document and one for what of it comes before the
    first; a segment that expands a conversation has one for each message. What the chat template
    writes itself, between messages, is in no piece.
    """
    stem = prompt.stem
    if stem is not None and isinstance(prompt, StemPrompt):
        known: tuple[Piece, ...] | None = stem.notes.get(_PIECES)
        if known is not None:
            return (*known, _last_of_stem(prompt, stem, known[-1].stop if known else 0))
    layout = prompt.layout
    if layout is None:
        return tuple(_of_ranges(prompt))
    if stem is None:
        return _of_layout(prompt, layout)
    made = _of_layout(prompt, layout)
    if made and made[-1].message and made[-1].stop == prompt.ranges[-1].stop:
        stem.notes[_PIECES] = made[:-1]
    return made


def _of_layout(prompt: TokenizedPrompt, layout: PromptLayout) -> tuple[Piece, ...]:
    pieces: list[Piece] = []
    if layout.tools is not None:
        level = prompt.prompt.tools_volatility
        pieces.append(_tools(prompt.packed, layout, layout.tools, level))
    for place in layout.segments:
        if place.segment.expanded:
            pieces += _messages(prompt.packed, layout, place)
        elif place.start < place.stop:
            pieces += _segment(prompt.packed, layout, place)
    return tuple(piece for piece in pieces if piece.start < piece.stop)


def _of_ranges(prompt: TokenizedPrompt) -> Iterator[Piece]:
    for part in prompt.ranges:
        if part.start < part.stop:
            yield Piece(
                segment=part.segment.id,
                volatility=part.segment.volatility,
                start=part.start,
                stop=part.stop,
                own_stop=part.stop,
                digest=span_digest(prompt.packed, part.start, part.stop - 1),
            )


def _tools(packed: bytes, layout: PromptLayout, place: tuple[int, int], level: Volatility) -> Piece:
    start, stop = layout.token_at(place[0]), layout.token_at(place[1])
    span = layout.span_at(place[0])
    key = (TOOLS, start, stop)
    known = _noted(span, key)
    if known is None:
        piece = Piece(
            segment=TOOLS,
            volatility=level,
            start=start,
            stop=stop,
            own_stop=stop,
            digest=span_digest(packed, start, stop - 1),
        )
        return _note(span, key, (piece,))[0]
    return known[0]


def _segment(packed: bytes, layout: PromptLayout, place: SegmentPlace) -> Sequence[Piece]:
    """The pieces of a text segment: found again by where its characters lie in its span."""
    span = layout.span_at(place.start)
    first = span.character if span else 0
    token = span.token if span else 0
    parts = tuple([(part.name, part.start - first, part.stop - first) for part in place.parts])
    key = (place.segment.id, token, place.start - first, place.stop - first, parts)
    known = _noted(span, key)
    if known is not None:
        return known
    return _note(span, key, tuple(_text_pieces(packed, layout, place)))


def _text_pieces(packed: bytes, layout: PromptLayout, place: SegmentPlace) -> Iterator[Piece]:
    """The segment's opening, then its documents, each up to the start of the next."""
    start, stop = layout.token_at(place.start), layout.token_at(place.stop)
    starts = [min(stop, layout.token_at(part.start)) for part in place.parts]
    ends = [min(stop, layout.token_at(part.stop)) for part in place.parts]
    names = [None, *(part.name for part in place.parts)]
    bounds = [start, *starts, stop]
    for number, name in enumerate(names):
        begin, end = bounds[number], bounds[number + 1]
        own_stop = end if name is None else min(end, ends[number - 1])
        yield Piece(
            segment=place.segment.id,
            volatility=place.segment.volatility,
            start=begin,
            stop=end,
            own_stop=own_stop,
            document=name,
            digest=span_digest(packed, begin, own_stop - 1),
        )


def _messages(packed: bytes, layout: PromptLayout, place: SegmentPlace) -> Iterator[Piece]:
    segment = place.segment
    last = 0
    for part in place.parts:
        span = layout.span_at(part.start)
        if span is None:
            continue
        key = (
            segment.id,
            part.name,
            span.token,
            part.start - span.character,
            part.stop - part.start,
        )
        known = _noted(span, key)
        if known is None:
            start, stop = max(last, span.token_at(part.start)), layout.token_at(part.stop)
            piece = Piece(
                segment=segment.id,
                volatility=segment.volatility,
                start=start,
                stop=max(start, stop),
                own_stop=max(start, stop),
                document=part.name,
                message=True,
                digest=span_digest(packed, start, stop),
            )
            known = _note(span, key, (piece,))
        last = known[0].stop
        yield known[0]


def _last_of_stem(prompt: StemPrompt, stem: PromptStem, last: int) -> Piece:
    """The last message of a conversation that ends the prompt; `last` ends the piece before."""
    segment, _, _, parts = stem.places[-1]
    start, stop = prompt.last_message
    if len(parts) > 1 and start < last:
        start = last
    if stop < start:
        stop = start
    return Piece(
        segment=segment.id,
        volatility=segment.volatility,
        start=start,
        stop=stop,
        own_stop=stop,
        document=parts[-1].name,
        message=True,
        digest=span_digest(prompt.packed, start, stop),
    )


def span_digest(packed: bytes, start: int, stop: int) -> bytes:
    """Digest of packed tokens `start <= i < stop`, at least one."""
    ids = packed[start * ID_BYTES : max(start + 1, stop) * ID_BYTES]
    return blake2b(ids, digest_size=DIGEST_BYTES).digest()


def _noted(span: PlacedSpan | None, key: object) -> tuple[Piece, ...] | None:
    if span is None or span.encoded is None:
        return None
    return cast("tuple[Piece, ...] | None", span.encoded.notes.get(key))


def _note(span: PlacedSpan | None, key: object, pieces: tuple[Piece, ...]) -> tuple[Piece, ...]:
    """Keep what was worked out; it depends on the span alone where the span holds all of it."""
    if span is not None and span.encoded is not None:
        last = span.token + len(span.encoded.ids)
        if all(span.token <= piece.start and piece.stop <= last for piece in pieces):
            if len(span.encoded.notes) >= _NOTES_KEPT:
                span.encoded.notes.clear()
            span.encoded.notes[key] = pieces
    return pieces
