"""Messages of a conversation that an earlier prompt had too, behind the point where the two part.

Short messages are the same in many conversations. So equal messages count only where it is surely
the same conversation that was edited: in runs, and with a sign that one prompt continues the other.
"""

from collections.abc import Iterator, Sequence

from cache.accounting_pieces import Piece
from cache.lineage import EarlierPrompt
from cache.token_ends import Range, kept_of_edited

_RUN_MESSAGES = 2
_RUN_TOKENS = 32

_Run = list[tuple[int, Piece]]


def found_messages(
    packed: bytes,
    pieces: Sequence[Piece],
    earlier: EarlierPrompt,
    shared: int,
    session: str | None,
) -> Iterator[Range]:
    """Tokens of messages behind the `shared` ones that the earlier prompt, or its answer, has."""
    behind = [piece for piece in pieces if piece.message and piece.stop > shared]
    if not behind:
        return
    theirs = [piece for piece in earlier.pieces if piece.message]
    runs = _runs(behind, theirs, earlier.answers, shared)
    if not runs:
        return
    edited = _edited(packed, behind[0], earlier, theirs, shared)
    if session is not None and earlier.session is not None:
        same = session == earlier.session
    else:
        same = bool(edited) or _continues(runs, pieces, theirs)
    if not same:
        return
    yield from edited
    for run in runs:
        for _, piece in run:
            yield piece.start, piece.stop


def _runs(
    behind: Sequence[Piece], theirs: Sequence[Piece], answers: Sequence[bytes], shared: int
) -> list[_Run]:
    """Messages that follow each other in both prompts, each with its place in the earlier one."""
    places: dict[bytes, list[int]] = {}
    for place, piece in enumerate(theirs):
        places.setdefault(piece.digest, []).append(place)
    for answer in answers:
        places.setdefault(answer, []).append(len(theirs))
    runs: list[_Run] = []
    last: int | None = None
    for piece in behind:
        found = places.get(piece.digest) if piece.start >= shared else None
        if not found:
            last = None
        elif last is not None and last + 1 in found:
            last += 1
            runs[-1].append((last, piece))
        else:
            last = found[0]
            runs.append([(last, piece)])
    return runs


def _edited(
    packed: bytes, first: Piece, earlier: EarlierPrompt, theirs: Sequence[Piece], shared: int
) -> tuple[Range, ...]:
    """What stayed of the first message that differs, where it is an edited form of theirs."""
    other = next((piece for piece in theirs if piece.stop > shared), None)
    if other is None or other.digest == first.digest:
        return ()
    return kept_of_edited(packed, first, earlier.packed, other, shared)


def _continues(runs: Sequence[_Run], pieces: Sequence[Piece], theirs: Sequence[Piece]) -> bool:
    """Whether the runs show that the messages are those of one conversation."""
    for run in runs:
        tokens = sum(piece.stop - piece.start for _, piece in run)
        if len(run) >= _RUN_MESSAGES and tokens >= _RUN_TOKENS:
            return True
    first = next(piece for piece in pieces if piece.message)
    place, piece = runs[0][0]
    whole = place == 0 and piece is first and len(runs[0]) >= len(theirs)
    return whole and len(runs[0]) >= _RUN_MESSAGES
