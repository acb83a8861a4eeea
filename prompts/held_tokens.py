"""A prompt with the token ids that the engine holds in place of those its text is encoded to.

A model may spell its answer in other tokens than the encoder would. What lies between two control
tokens of the template stays the same text; the places within it are found by the tokens that both
spellings begin and end with.
"""

from array import array
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import replace

from prompts.layout import PlacedSpan
from prompts.segments import SegmentTokens, TokenizedPrompt
from prompts.shared_length import shared_length
from prompts.token_cache import EncodedSpan


def with_held_ids(prompt: TokenizedPrompt, token_ids: Sequence[int]) -> TokenizedPrompt | None:
    """The prompt as these ids spell it; None where its control tokens are not the prompt's.

    Tokens in the middle of a text that both spell differently are taken to be equally long, so that
    only places within such a text are inexact.
    """
    held = tuple(token_ids)
    if held == prompt.token_ids:
        return prompt
    layout = prompt.layout
    if layout is None:
        return None
    spans = respelled(prompt.token_ids, layout.spans, held)
    if spans is None:
        return None
    moved = replace(layout, spans=spans)
    return TokenizedPrompt(
        prompt=prompt.prompt,
        token_ids=held,
        packed=array("I", held).tobytes(),
        layout=moved,
        ranges=tuple(
            SegmentTokens(
                segment=place.segment,
                start=moved.token_at(place.start),
                stop=moved.token_at(place.stop),
            )
            for place in moved.segments
        ),
    )


def respelled(
    token_ids: Sequence[int], placed: Sequence[PlacedSpan], held: tuple[int, ...]
) -> list[PlacedSpan] | None:
    """The spans of these ids as `held` spells them; None where it has other control tokens."""
    spans: list[PlacedSpan] = []
    position = 0
    for number, span in enumerate(placed):
        if span.encoded is None:
            if position >= len(held) or held[position] != token_ids[span.token]:
                return None
            spans.append(PlacedSpan(span.character, position, None))
            position += 1
            continue
        following = placed[number + 1] if number + 1 < len(placed) else None
        stop = len(held) if following is None else _next(held, token_ids[following.token], position)
        if stop is None:
            return None
        ids = held[position:stop]
        encoded = span.encoded
        if ids != tuple(encoded.ids):
            end = following.character - span.character if following else max(encoded.starts) + 1
            encoded = _spelled(encoded, ids, end)
        spans.append(PlacedSpan(span.character, position, encoded))
        position = stop
    return spans if position == len(held) else None


def _next(held: tuple[int, ...], token: int, start: int) -> int | None:
    try:
        return held.index(token, start)
    except ValueError:
        return None


def _spelled(encoded: EncodedSpan, ids: tuple[int, ...], end: int) -> EncodedSpan:
    """The span in other tokens; `end` is its length in characters."""
    usual = tuple(encoded.ids)
    first = shared_length(usual, ids)
    most = min(len(usual), len(ids)) - first
    last = min(most, shared_length(usual[::-1], ids[::-1]))
    front, back = encoded.starts[:first], encoded.starts[len(encoded.starts) - last :]
    begin = encoded.starts[first] if first < len(encoded.starts) else end
    stop = back[0] if back else end
    count = len(ids) - first - last
    middle = (begin + (stop - begin) * number // count for number in range(count))
    starts = front + array("I", middle) + back
    return EncodedSpan(
        ids,
        tuple(
            bisect_left(starts, encoded.starts[s]) if s < len(encoded.starts) else len(ids)
            for s in encoded.seams
        ),
        starts,
        array("I", ids).tobytes(),
    )
