"""Where a prompt parts from an earlier one, and what of its rest that one had computed elsewhere.

KV is re-used from the first token on and up to the first difference. Text behind the difference is
computed again, even where it is the same: such text is found here, by pieces that an earlier prompt
had and by the ends of pieces that were edited.
"""

from collections.abc import Iterator, Sequence
from itertools import pairwise

import msgspec

from cache.accounting_pieces import ID_BYTES, TOOLS, Piece
from cache.causes import Cause
from cache.conversation_match import found_messages
from cache.lineage import EarlierPrompt, Recollection
from cache.token_ends import kept_of_edited, shared_start
from cache.verdicts import Divergence
from prompts import Volatility

Range = tuple[int, int]


class ComparedPrompt(msgspec.Struct, frozen=True):
    """What of a new prompt is compared; its `opening` is as in `EarlierPrompt`."""

    template: str
    packed: bytes
    pieces: tuple[Piece, ...]
    session: str | None = None
    opening: bytes = b""

    @property
    def tokens(self) -> int:
        """Its length."""
        return len(self.packed) // ID_BYTES


class Comparison(msgspec.Struct, frozen=True):
    """A prompt beside the earlier one that explains most of it.

    `shared` leading tokens are the same in both. `found` are ranges of tokens behind them, in order
    and apart, that earlier prompts had computed at another place or after other text. `cause` says
    what kind of text differs; it means nothing where nothing is found.
    """

    earlier: EarlierPrompt
    shared: int
    divergence: Divergence | None
    cause: Cause
    found: tuple[Range, ...]


def compare(prompt: ComparedPrompt, recollection: Recollection) -> Comparison | None:
    """The prompt beside the candidate that explains most of its tokens; None without candidates."""
    if not recollection.candidates:
        return None
    candidates = recollection.candidates
    if len(candidates) == 1:
        earlier = candidates[0]
        likely = prompt.pieces[-1].start if prompt.pieces else 0
        shared = _shared(prompt, earlier, likely=likely)
    else:
        earlier, shared = _best(prompt, candidates)
    if shared in (prompt.tokens, earlier.tokens):
        return Comparison(earlier, shared, None, Cause.SEGMENT_CHANGED, ())
    divergence = _in_last_message(prompt, earlier, shared)
    if divergence is not None:
        return Comparison(earlier, shared, divergence, Cause.SEGMENT_CHANGED, ())
    divergence = _divergence(prompt, earlier, shared)
    found = tuple(_joined(_found(prompt, earlier, shared, recollection.seen)))
    cause = _cause(prompt, earlier, divergence) if found else Cause.SEGMENT_CHANGED
    return Comparison(earlier, shared, divergence, cause, found)


def _best(prompt: ComparedPrompt, candidates: Sequence[EarlierPrompt]) -> tuple[EarlierPrompt, int]:
    """The candidate that explains most tokens, and how many leading ones are the same."""
    most, best, shared = -1, candidates[0], 0
    for candidate in candidates:
        length = _shared(prompt, candidate)
        if length == prompt.tokens:
            return candidate, length
        explained = length + _seen_behind(prompt, candidate, length)
        if explained > most:
            most, best, shared = explained, candidate, length
    return best, shared


def _shared(prompt: ComparedPrompt, earlier: EarlierPrompt, *, likely: int = 0) -> int:
    """Leading tokens that are the same."""
    if earlier.opening != prompt.opening:
        return shared_start(prompt.packed, earlier.packed, likely=likely)
    known = len(prompt.opening)
    first = known // ID_BYTES
    rest = prompt.packed[known:]
    return first + shared_start(rest, earlier.rest, likely=max(0, likely - first))


def _seen_behind(prompt: ComparedPrompt, earlier: EarlierPrompt, shared: int) -> int:
    """Tokens of pieces behind the shared ones that the earlier prompt has too."""
    digests, answers = earlier.digests, earlier.answers
    return sum(
        [
            piece.stop - piece.start
            for piece in prompt.pieces
            if piece.start >= shared and (piece.digest in digests or piece.digest in answers)
        ]
    )


def _in_last_message(
    prompt: ComparedPrompt, earlier: EarlierPrompt, shared: int
) -> Divergence | None:
    """Where the two part within the last message, as most do: nothing behind it is found again.

    What `_divergence` and `_found` would make of it is plain then. None: it isn't so.
    """
    pieces = prompt.pieces
    if not pieces:
        return None
    last, parts, through = pieces[-1], 0, None
    if (
        not last.message
        or not last.start <= shared < last.own_stop
        or (len(pieces) > 1 and pieces[-2].stop > shared)
        or last.digest in earlier.digests
        or last.digest in earlier.answers
    ):
        return None
    for piece in pieces:
        if piece.message:
            parts += 1
            if piece is not last:
                through = piece.document
    return Divergence(
        token=shared,
        of=len(prompt.packed) // ID_BYTES,
        segment=last.segment,
        document=last.document,
        matched_through=through,
        matched_parts=parts - 1,
        parts=parts,
        earlier_request=earlier.request_id,
    )


def _divergence(prompt: ComparedPrompt, earlier: EarlierPrompt, shared: int) -> Divergence:
    segment, document, message = _where(prompt.pieces, earlier.pieces, shared)
    parts = [p for p in prompt.pieces if p.document is not None and not p.message]
    if message:
        parts = [p for p in prompt.pieces if p.message]
    matched = [part for part in parts if part.own_stop <= shared]
    return Divergence(
        token=shared,
        of=prompt.tokens,
        segment=segment,
        document=document,
        matched_through=matched[-1].document if matched else None,
        matched_parts=len(matched) if parts else None,
        parts=len(parts) or None,
        earlier_request=earlier.request_id,
    )


def _where(
    pieces: Sequence[Piece], theirs: Sequence[Piece], token: int
) -> tuple[str | None, str | None, bool]:
    """Segment and part at a token, and whether that is a message.

    Where the token is the template's own, it is the part that follows, be it in the new prompt or,
    when it was removed, in the earlier one.
    """
    own = _piece_at(pieces, token) or _piece_at(theirs, token)
    at = own or _next_part(pieces, token) or _next_part(theirs, token)
    if at is not None:
        return at.segment, at.document, at.message
    for piece in pieces:
        if piece.start <= token < piece.stop:
            return piece.segment, None, False
    following = next((piece for piece in pieces if piece.start >= token), None)
    if following is None:
        return None, None, False
    return following.segment, following.document, following.message


def _piece_at(pieces: Sequence[Piece], token: int) -> Piece | None:
    """The piece whose own text a token lies in."""
    for piece in pieces:
        if piece.start <= token < piece.own_stop:
            return piece
    return None


def _next_part(pieces: Sequence[Piece], token: int) -> Piece | None:
    """The part of a segment that follows the one behind whose text a token lies."""
    for piece, following in pairwise(pieces):
        if piece.own_stop <= token < piece.stop and following.segment == piece.segment:
            return following
    return None


def _cause(prompt: ComparedPrompt, earlier: EarlierPrompt, divergence: Divergence) -> Cause:
    if prompt.template != earlier.template:
        return Cause.VERSION
    if divergence.segment == TOOLS:
        return Cause.TOOLS_CHANGED
    ours = [p for p in prompt.pieces if p.segment == divergence.segment]
    if any(piece.message for piece in ours):
        return Cause.HISTORY_EDITED
    documents = sorted([p.digest for p in ours if p.document is not None])
    theirs = sorted(
        [p.digest for p in earlier.pieces if p.segment == divergence.segment and p.document]
    )
    if not documents and not theirs:
        return Cause.SEGMENT_CHANGED
    return Cause.DOCUMENTS_ORDER if documents == theirs else Cause.DOCUMENTS_CHANGED


def _found(
    prompt: ComparedPrompt, earlier: EarlierPrompt, shared: int, seen: Sequence[bool]
) -> Iterator[Range]:
    yield from found_messages(prompt.packed, prompt.pieces, earlier, shared, prompt.session)
    for piece, known in zip(prompt.pieces, seen, strict=True):
        if piece.stop <= shared or piece.message or _is_new(piece):
            continue
        if known and piece.start >= shared:
            yield piece.start, piece.stop
        elif (other := _form_of(piece, earlier)) is not None:
            yield from kept_of_edited(prompt.packed, piece, earlier.packed, other, shared)


def _is_new(piece: Piece) -> bool:
    """Whether a piece is a turn's own text. A document is the collection's wherever it is shown."""
    return piece.volatility >= Volatility.TURN and piece.document is None


def _form_of(piece: Piece, earlier: EarlierPrompt) -> Piece | None:
    """The piece of an earlier prompt that a piece may be an edited form of."""
    for other in earlier.pieces:
        if other.segment == piece.segment and other.document == piece.document:
            return None if other.message else other
    return None


def _joined(ranges: Iterator[Range]) -> Iterator[Range]:
    """The same tokens as ranges in order that don't overlap."""
    last = 0
    for start, stop in sorted(ranges):
        if stop > last:
            yield max(start, last), stop
            last = stop
