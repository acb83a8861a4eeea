"""What two runs of tokens share, what of an edited one stays, and which messages are the same."""

from array import array

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cache.accounting_pieces import Piece, span_digest
from cache.causes import Cause
from cache.divergence import ComparedPrompt, Comparison, compare
from cache.lineage import EarlierPrompt, Recollection
from cache.token_ends import kept_of_edited, shared_end, shared_start
from prompts import Volatility

tokens = st.lists(st.integers(0, 3), max_size=40)


def packed(ids: list[int]) -> bytes:
    return array("I", ids).tobytes()


@given(head=tokens, one=tokens, other=tokens, tail=tokens)
def test_shared_ends_are_as_long_as_they_can_be(
    head: list[int], one: list[int], other: list[int], tail: list[int]
) -> None:
    ours, theirs = head + one + tail, head + other + tail
    start, end = (f(packed(ours), packed(theirs)) for f in (shared_start, shared_end))
    assert ours[:start] == theirs[:start]
    assert start in (len(ours), len(theirs)) or ours[start] != theirs[start]
    assert end == 0 or ours[-end:] == theirs[-end:]
    assert end in (len(ours), len(theirs)) or ours[-end - 1] != theirs[-end - 1]


@given(ours=tokens, theirs=tokens, shared=st.integers(0, 40))
def test_what_is_kept_of_an_edited_piece_was_in_its_earlier_form(
    ours: list[int], theirs: list[int], shared: int
) -> None:
    one, other = whole(ours), whole(theirs)
    ranges = kept_of_edited(packed(ours), one, packed(theirs), other, shared)
    kept = sum(stop - start for start, stop in ranges)
    assert kept <= min(len(ours), len(theirs))
    for start, stop in ranges:
        assert shared <= start < stop <= len(ours)
        assert ours[start:stop] in [theirs[i : i + stop - start] for i in range(len(theirs))]


def whole(ids: list[int]) -> Piece:
    return Piece(
        segment="s", volatility=Volatility.SESSION, start=0, stop=len(ids), own_stop=len(ids)
    )


def messages(*said: list[int]) -> tuple[bytes, tuple[Piece, ...]]:
    ids = packed([i for one in said for i in one])
    pieces: list[Piece] = []
    start = 0
    for number, one in enumerate(said):
        stop = start + len(one)
        pieces.append(
            Piece(
                segment="conversation",
                volatility=Volatility.TURN,
                start=start,
                stop=stop,
                own_stop=stop,
                document=f"message {number + 1} (user)",
                message=True,
                digest=span_digest(ids, start, stop),
            )
        )
        start = stop
    return ids, tuple(pieces)


def compared(
    earlier: list[list[int]],
    later: list[list[int]],
    *,
    sessions: tuple[str | None, str | None] = (None, None),
) -> Comparison:
    ids, pieces = messages(*earlier)
    before = EarlierPrompt(
        request_id="r", template="chat@1", rest=ids, pieces=pieces, session=sessions[0]
    )
    ids, pieces = messages(*later)
    seen = tuple(piece.digest in before.digests for piece in pieces)
    comparison = compare(
        ComparedPrompt("chat@1", ids, pieces, sessions[1]),
        Recollection(seen=seen, candidates=(before,)),
    )
    assert comparison is not None
    return comparison


LONG = [list(range(100 * n, 100 * n + 30)) for n in range(1, 9)]
SHORT = [[1, 2], [3, 4], [5, 6], [7, 8]]


def found(comparison: Comparison) -> int:
    return sum(stop - start for start, stop in comparison.found)


@pytest.mark.parametrize("asked", [[*LONG[3][:5], 9, 9], [9, 9]])
def test_a_conversation_that_asks_something_else_parts_in_its_last_message(
    asked: list[int],
) -> None:
    comparison = compared(LONG[:4], [*LONG[:3], asked])
    divergence = comparison.divergence
    assert divergence is not None
    assert divergence.token == comparison.shared == 90 + max(0, len(asked) - 2)
    assert divergence.of == 90 + len(asked)
    names = [divergence.matched_through, divergence.document]
    assert names == [piece.document for piece in messages(*LONG[:4])[1][2:]]
    assert (divergence.matched_parts, divergence.parts) == (3, 4)
    assert comparison.found == ()


def test_an_edited_message_leaves_those_behind_it_to_be_found() -> None:
    comparison = compared(LONG[:4], [LONG[0], LONG[6], *LONG[2:4], LONG[7]])
    assert comparison.shared == 30
    assert comparison.cause is Cause.HISTORY_EDITED
    assert found(comparison) == 60


def test_a_history_cut_at_its_front_is_found() -> None:
    assert found(compared(LONG[:5], [*LONG[2:5], LONG[6]])) == 90


def test_short_messages_in_another_conversation_are_not_taken_for_an_edited_one() -> None:
    comparison = compared([LONG[0], *SHORT], [LONG[1], *SHORT])
    assert comparison.found == ()


def test_one_long_message_in_another_conversation_is_not_taken_for_an_edited_one() -> None:
    assert compared([LONG[0], LONG[1]], [LONG[2], LONG[1], LONG[3]]).found == ()


@pytest.mark.parametrize(("sessions", "tokens"), [(("a", "a"), 30), (("a", "b"), 0)])
def test_a_session_that_the_client_names_decides(sessions: tuple[str, str], tokens: int) -> None:
    earlier, later = [LONG[0], LONG[1]], [LONG[2], LONG[1], LONG[3]]
    assert found(compared(earlier, later, sessions=sessions)) == tokens


def test_a_prompt_that_continues_the_earlier_one_parts_nowhere() -> None:
    comparison = compared(LONG[:2], LONG[:4])
    assert comparison.divergence is None
    assert comparison.found == ()


def test_a_prompt_that_ends_within_the_earlier_one_parts_nowhere() -> None:
    assert compared(LONG[:4], LONG[:2]).divergence is None


def test_another_version_of_the_template_is_the_cause() -> None:
    ids, pieces = text(["rules"], [LONG[0], LONG[1]])
    before = EarlierPrompt(request_id="r", template="docqa@1", rest=ids, pieces=pieces)
    ids, pieces = text(["rules"], [LONG[2], LONG[1]])
    seen = tuple(piece.digest in before.digests for piece in pieces)
    comparison = compare(
        ComparedPrompt("docqa@2", ids, pieces), Recollection(seen=seen, candidates=(before,))
    )
    assert comparison is not None
    assert comparison.cause is Cause.VERSION
    assert found(comparison) == 30


@given(tokens, tokens, tokens)
def test_an_opening_that_is_held_apart_changes_nothing(
    opening: list[int], one: list[int], other: list[int]
) -> None:
    """Whether both prompts have it, or only the earlier one is known to."""
    ids, pieces = text(["rules"], [[7, *opening, *one]])
    theirs, their_pieces = text(["rules"], [[7, *opening, *other]])
    shared, rest = packed([7, *opening]), packed(other)
    whole = EarlierPrompt(request_id="r", template="t@1", rest=theirs, pieces=their_pieces)
    apart = EarlierPrompt(
        request_id="r", template="t@1", opening=shared, rest=rest, pieces=their_pieces
    )
    assert (apart.packed, apart.tokens) == (whole.packed, whole.tokens)
    told = []
    for earlier in (whole, apart):
        for mine in (b"", shared):
            new = ComparedPrompt("t@1", ids, pieces, None, mine)
            made = compare(new, Recollection(seen=(False,), candidates=(earlier,)))
            assert made is not None
            told.append((made.shared, made.divergence, made.cause, made.found))
    assert all(each == told[0] for each in told)


def text(names: list[str], parts: list[list[int]]) -> tuple[bytes, tuple[Piece, ...]]:
    ids = packed([i for part in parts for i in part])
    pieces: list[Piece] = []
    start = 0
    for number, part in enumerate(parts):
        stop = start + len(part)
        pieces.append(
            Piece(
                segment=f"{names[0]}-{number}",
                volatility=Volatility.STATIC,
                start=start,
                stop=stop,
                own_stop=stop,
                digest=span_digest(ids, start, stop),
            )
        )
        start = stop
    return ids, tuple(pieces)
