"""What of a prompt stays when its last message becomes another: its stem."""

from collections.abc import Sequence
from hashlib import blake2b

from prompts.chat_shapes import Guarded, Piece
from prompts.chat_template import pieces_from
from prompts.chat_watch import Trim
from prompts.errors import ChatTemplateError
from prompts.layout import PlacedSpan, PromptLayout
from prompts.segments import DIGEST_BYTES, Message, Prompt, TokenizedPrompt
from prompts.stems import PromptStem, Stretch
from prompts.token_runs import ID_BYTES
from prompts.token_spans import Span
from prompts.tokens import PromptTokenizer

Asked = tuple[tuple[Trim, ...], tuple[Guarded, ...]]


def stem_of(tokenizer: PromptTokenizer, tokenized: TokenizedPrompt) -> PromptStem | None:
    """The stem of a prompt; earlier answers may have the model's own ids in it.

    None where it doesn't end in a user's message of a conversation, or where what the last message
    says may change what comes before it.
    """
    prompt, layout = tokenized.prompt, tokenized.layout
    if layout is None or not _ends_plainly(prompt):
        return None
    try:
        followed = tokenizer.chat.followed(prompt.messages, prompt.tools)
    except ChatTemplateError:
        return None
    if followed is None:
        return None
    shape, pieces = followed
    last = len(prompt.messages) - 1
    asked = shape.asked_of(last)
    number = number_of(pieces, last)
    if asked is None or number is None:
        return None
    return _cut_at(tokenizer, tokenized, layout, asked, pieces, number)


def number_of(pieces: Sequence[Piece], message: int) -> int | None:
    """Which piece is the first of a message; None where the template shows nothing of it."""
    for number, piece in enumerate(pieces):
        if piece.origin is not None and piece.origin.message == message:
            return number
    return None


def stretch_at(
    tokenizer: PromptTokenizer, spans: Sequence[Span], text_at: int, text: str
) -> tuple[int, Stretch] | None:
    """The span that a text lies in, by its number, and what is encoded with it.

    None where the text doesn't lie in one, or a control token beside it takes blanks along.
    """
    number = len(spans) - 1
    while number >= 0 and (spans[number].control is not None or spans[number].starts[0] > text_at):
        number -= 1
    if number < 0:
        return None
    eats = tokenizer.control.eats
    if number and eats(spans[number - 1].parts[0]):
        return None
    if number + 1 < len(spans) and eats(spans[number + 1].parts[0]):
        return None
    stretch = _stretch(spans[number].parts, spans[number].starts, text_at, text)
    return None if stretch is None else (number, stretch)


def _ends_plainly(prompt: Prompt) -> bool:
    if not prompt.segments or not prompt.segments[-1].expanded:
        return False
    last = prompt.segments[-1].expanded[-1]
    return last == Message(role="user", content=last.content)


def _cut_at(
    tokenizer: PromptTokenizer,
    tokenized: TokenizedPrompt,
    layout: PromptLayout,
    asked: Asked,
    pieces: Sequence[Piece],
    piece: int,
) -> PromptStem | None:
    prompt, text = tokenized.prompt, pieces[piece].text
    text_at = sum([len(before.text) for before in pieces[:piece]])
    spans = tokenizer.control.spans(pieces, prompt.messages, layout.cuts)
    found = stretch_at(tokenizer, spans, text_at, text)
    place = layout.segments[-1]
    if found is None or len(spans) != len(layout.spans):
        return None
    number, stretch = found
    start = spans[number].starts[0]
    fixed_stops = [other.stop for other in layout.segments[:-1]]
    if layout.tools is not None:
        fixed_stops.append(layout.tools[1])
    if max(fixed_stops, default=0) > start or place.stop != text_at + len(text):
        return None
    if place.parts[-1].stop != place.stop or len(place.parts) != len(place.segment.expanded):
        return None
    first = layout.spans[number].token
    rest = layout.spans[number + 1 :]
    stop = rest[0].token if rest else len(tokenized.token_ids)
    end = start + sum(map(len, spans[number].parts))
    front = tuple(pieces[:piece])
    return PromptStem(
        tokenizer=tokenizer,
        prompt=prompt,
        tokens=first,
        packed=tokenized.packed[: first * ID_BYTES],
        hashed=blake2b(tokenized.packed[: first * ID_BYTES], digest_size=DIGEST_BYTES),
        last_ids=tokenized.token_ids[stop:],
        last_packed=tokenized.packed[stop * ID_BYTES :],
        trims=asked[0],
        guards=asked[1],
        stretch=stretch,
        front=front,
        opening=tuple(pieces_from(front, start)),
        closing="".join([behind.text for behind in pieces[piece + 1 :]]),
        start=start,
        text_at=text_at,
        places=layout.segments,
        tools=layout.tools,
        ranges=tokenized.ranges,
        spans=tuple(layout.spans[:number]),
        last_spans=tuple(
            [PlacedSpan(span.character - end, span.token - stop, span.encoded) for span in rest]
        ),
    )


def _stretch(
    parts: Sequence[str], starts: Sequence[int], text_at: int, text: str
) -> Stretch | None:
    """The parts around the text; None where the text doesn't lie in one of them."""
    for number, (part, start) in enumerate(zip(parts, starts, strict=True)):
        at = text_at - start
        if 0 <= at < len(part) and part[at : at + len(text)] == text:
            return Stretch(
                front=tuple(parts[:number]),
                before=part[:at],
                after=part[at + len(text) :],
                back=tuple(parts[number + 1 :]),
            )
    return None
