"""The stem of a conversation that went on: from that of its last prompt, without the whole of it.

Only what came since is rendered and encoded: the question that was asked, its answer, and what the
chat template writes around them. What it makes is what `stem_of` would make of the whole prompt;
where the template writes anything earlier otherwise now, it makes nothing.
"""

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Mapping
from operator import attrgetter
from typing import NamedTuple

from prompts.chat_shapes import Guarded, Piece
from prompts.chat_template import pieces_from, text_of
from prompts.chat_watch import Trim
from prompts.errors import ChatTemplateError
from prompts.held_tokens import respelled
from prompts.layout import PartPlace, PlacedSpan, SegmentPlace
from prompts.records import record
from prompts.segments import Message, RenderedSegment, SegmentTokens
from prompts.stem_making import number_of, stretch_at
from prompts.stems import PromptStem, Stretch
from prompts.token_cache import EncodedSpan
from prompts.token_runs import ID_BYTES
from prompts.token_spans import Span
from prompts.transcript_answer import locate_answer


class Turn(NamedTuple):
    """What was said since a stem's beginning, and what is asked now, as prompts have these texts.

    `output_ids` are the answer as the model spelled it; None where nobody knows.
    """

    asked: str
    answered: str
    asks: str
    output_ids: tuple[int, ...] | None = None


class Grown(NamedTuple):
    """A longer stem, and whether the answer's own ids are in it."""

    stem: PromptStem
    holds_own: bool


class _Encoded(NamedTuple):
    """All spans but the new stretch; those behind it are placed as if that had no tokens."""

    placed: list[PlacedSpan]
    ids: list[int]


@record
class _Rest:
    """The rendered text from the old stem's stretch on. Characters and tokens count from there.

    Attributes:
        whole: all of it.
        piece: number of the new last message's.
        text_at: where it begins.
        number: of the span that it lies in.
        trims, guards: of that message.
    """

    messages: tuple[Message, ...]
    pieces: list[Piece]
    spans: list[Span]
    whole: str
    piece: int
    text_at: int
    text: str
    number: int
    stretch: Stretch
    trims: tuple[Trim, ...]
    guards: tuple[Guarded, ...]


def grown(stem: PromptStem, turn: Turn) -> Grown | None:
    """The stem of the conversation after a turn.

    None where only the whole conversation can tell.
    """
    shown = stem.shown(turn.asked)
    rest = _rest(stem, turn, shown[0]) if shown is not None else None
    place = _place(stem, rest) if rest is not None else None
    if shown is None or rest is None or place is None:
        return None
    if turn.output_ids is None:
        return Grown(_stem(stem, rest, place, _encoded(stem, rest, {})), holds_own=False)
    # As the engine's cache has it, which may be in other tokens than the text is encoded to.
    held = (*shown[1].ids, *stem.last_ids, *turn.output_ids)
    said = text_of(stem.opening) + shown[0] + stem.closing
    own = _as_spelled(stem, rest, said, turn.output_ids)
    if own is not None:
        encoded = _encoded(stem, rest, own)
        return Grown(_stem(stem, rest, place, encoded), holds_own=True)
    encoded = _encoded(stem, rest, {})
    holds_own = tuple(encoded.ids[: len(held)]) != held
    if holds_own:
        respelled = _with_own(stem, rest, said, held, turn.output_ids, encoded)
        if respelled is None:
            return None
        encoded = respelled
    return Grown(_stem(stem, rest, place, encoded), holds_own)


def _rest(stem: PromptStem, turn: Turn, shown: str) -> _Rest | None:
    asked = len(stem.prompt.messages) - 1
    messages = (
        *stem.prompt.messages[:-1],
        Message(role="user", content=turn.asked),
        Message(role="assistant", content=turn.answered),
        Message(role="user", content=turn.asks),
    )
    try:
        followed = stem.tokenizer.chat.followed(messages, stem.prompt.tools)
    except ChatTemplateError:
        return None
    if followed is None:
        return None
    shape, pieces = followed
    count = len(stem.front)
    about_last = shape.asked_of(asked + 2)
    if about_last is None or len(pieces) <= count or tuple(pieces[:count]) != stem.front:
        return None
    since = pieces[count:]
    if since[0].text != shown or since[0].origin != (asked, "content"):
        return None
    for piece in since:
        origin = piece.origin  # the template's own, or of a message from this one on
        if origin is not None and (origin.message is None or origin.message < asked):
            return None
    pieces = [*stem.opening, *since]
    number = number_of(pieces, asked + 2)
    if number is None:
        return None
    text, text_at = pieces[number].text, sum([len(piece.text) for piece in pieces[:number]])
    cuts = (stem.places[-1].start - stem.start, text_at + len(text))
    spans = stem.tokenizer.control.spans(pieces, messages, [cut for cut in cuts if cut > 0])
    found = stretch_at(stem.tokenizer, spans, text_at, text)
    if found is None:
        return None
    return _Rest(
        messages=messages,
        pieces=pieces,
        spans=spans,
        whole=text_of(pieces),
        piece=number,
        text_at=text_at,
        text=text,
        number=found[0],
        stretch=found[1],
        trims=about_last[0],
        guards=about_last[1],
    )


def _place(stem: PromptStem, rest: _Rest) -> SegmentPlace | None:
    """The conversation's segment with the new messages, and where they lie."""
    known = stem.places[-1]
    old = known.segment
    expanded = (*old.expanded[:-1], *rest.messages[-3:])
    first, position = len(rest.messages) - 3, stem.start
    starts: dict[int, int] = {}
    stops: dict[int, int] = {}
    for piece in rest.pieces:
        if piece.origin is not None and piece.origin.message is not None:
            whose = piece.origin.message
            starts.setdefault(whose, position)
            stops[whose] = position + len(piece.text)
        position += len(piece.text)
    stop = stem.start + rest.text_at + len(rest.text)
    if len(starts) != 3 or max(stops.values()) != stop:
        return None
    parts = list(known.parts[:-1])
    for number, message in enumerate(rest.messages[-3:]):
        name = f"message {len(old.expanded) + number} ({message.role})"
        parts.append(PartPlace(name, starts[first + number], stops[first + number]))
    segment = RenderedSegment(
        id=old.id,
        role=old.role,
        volatility=old.volatility,
        text=old.text,
        message=old.message,
        expanded=expanded,
    )
    return SegmentPlace(segment, known.start, stop, parts)


def _encoded(stem: PromptStem, rest: _Rest, known: Mapping[int, EncodedSpan]) -> _Encoded:
    placed: list[PlacedSpan] = []
    ids: list[int] = []
    for number, span in enumerate(rest.spans):
        if number == rest.number:
            continue
        if span.control is not None:
            placed.append(PlacedSpan(span.starts[0], len(ids), None))
            ids.append(span.control)
        else:
            encoded = known.get(number) or stem.tokenizer.cache.encode(span.parts)
            placed.append(PlacedSpan(span.starts[0], len(ids), encoded))
            ids += encoded.ids
    return _Encoded(placed, ids)


def _as_spelled(
    stem: PromptStem, rest: _Rest, said: str, output: tuple[int, ...]
) -> Mapping[int, EncodedSpan] | None:
    """The answer's span from the ids that came, without encoding it; None where it isn't plain.

    It is where the answer is between the words that opened it and a control token, and its letters
    are those of the ids. The engine has these ids whatever its text is encoded to.
    """
    number = len(stem.last_spans)
    opened = stem.last_spans[-1].encoded if number else None
    if opened is None:
        number += 1
    if number + 1 >= rest.number or rest.spans[number].control is not None:
        return None
    if not rest.whole.startswith(said):
        return None
    parts, places, _ = rest.spans[number]
    text, opening = "".join(parts), said[places[0] :]
    stopped = bool(output) and output[-1] == rest.spans[number + 1].control
    letters = output[:-1] if stopped else output
    spoken = stem.tokenizer.decode(letters)
    if not text.isascii() or text != opening + spoken or not said.endswith(opening):
        return None
    starts = array("I") if opened is None else array("I", opened.starts)
    at, spelled = len(opening), stem.tokenizer.encoder.id_to_token
    for token in letters:
        starts.append(at)
        at += len(spelled(token) or "")
    if at != len(text):
        return None
    ids = letters if opened is None else (*opened.ids, *letters)
    seams = tuple([bisect_left(starts, place - places[0]) for place in places])
    return {number: EncodedSpan(ids, seams, starts, array("I", ids).tobytes())}


def _with_own(
    stem: PromptStem,
    rest: _Rest,
    said: str,
    held: tuple[int, ...],
    output: tuple[int, ...],
    encoded: _Encoded,
) -> _Encoded | None:
    """The spans with the answer as the model spelled it, as a transcript has it."""
    control, (placed, ids) = stem.tokenizer.control, encoded
    if not rest.whole.startswith(said):
        return None
    if any(span.control is not None and control.eats(span.parts[0]) for span in rest.spans):
        return None
    answer = len(rest.messages) - 2
    place = locate_answer(stem.tokenizer, rest.pieces, rest.messages, answer, len(said), output)
    if place.unfaithful is not None:
        return None
    before = placed[: rest.number]
    at = next((n for n, span in enumerate(before) if span.character == place.end), None)
    if at is None:
        return None
    stop = placed[rest.number].token if len(placed) > rest.number else len(ids)
    own = (*held, *ids[before[at].token : stop])
    spans = respelled(ids[:stop], before, own)
    if spans is None:
        return None
    by = len(own) - stop
    spans += [PlacedSpan(s.character, s.token + by, s.encoded) for s in placed[rest.number :]]
    return _Encoded(spans, [*own, *ids[stop:]])


def _stem(
    stem: PromptStem,
    rest: _Rest,
    place: SegmentPlace,
    encoded: _Encoded,
) -> PromptStem:
    number, first = rest.number, stem.start
    placed, ids = encoded.placed, tuple(encoded.ids)
    behind = placed[number:]
    tokens = behind[0].token if behind else len(ids)
    packed = array("I", ids).tobytes()
    hashed = stem.hashed.copy()
    hashed.update(packed[: tokens * ID_BYTES])
    start = rest.spans[number].starts[0]
    end = start + sum(map(len, rest.spans[number].parts))
    before = rest.pieces[: rest.piece]
    began = stem.ranges[-1].start
    if place.start >= stem.start:
        at = place.start - stem.start
        span = placed[bisect_right(placed[:number], at, key=attrgetter("character")) - 1]
        began = stem.tokens + span.token_at(at)
    return PromptStem(
        tokenizer=stem.tokenizer,
        prompt=stem.prompt.with_last(place.segment),
        tokens=stem.tokens + tokens,
        packed=stem.packed + packed[: tokens * ID_BYTES],
        hashed=hashed,
        lasting=dict(stem.lasting),
        last_ids=ids[tokens:],
        last_packed=packed[tokens * ID_BYTES :],
        trims=rest.trims,
        guards=rest.guards,
        stretch=rest.stretch,
        front=(*stem.front, *before[len(stem.opening) :]),
        opening=tuple(pieces_from(before, start)),
        closing=rest.whole[rest.text_at + len(rest.text) :],
        start=first + start,
        text_at=first + rest.text_at,
        places=(*stem.places[:-1], place),
        tools=stem.tools,
        ranges=(
            *stem.ranges[:-1],
            SegmentTokens(segment=place.segment, start=began, stop=stem.tokens + tokens),
        ),
        spans=(
            *stem.spans,
            *[
                PlacedSpan(first + s.character, stem.tokens + s.token, s.encoded)
                for s in placed[:number]
            ],
        ),
        last_spans=tuple(
            [PlacedSpan(s.character - end, s.token - tokens, s.encoded) for s in behind]
        ),
    )
