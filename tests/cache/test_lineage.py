"""Lineages are bounded, and remember the prompts that later ones are like."""

from array import array

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from cache.accounting_pieces import Piece, span_digest
from cache.lineage import EarlierPrompt, LineageKey, Lineages
from prompts import Volatility

KEY = LineageKey("salt", "docqa", None)


def packed(*ids: int) -> bytes:
    return array("I", ids).tobytes()


def prompt(name: str, *parts: list[int], session: str | None = None) -> EarlierPrompt:
    """A prompt of documents, each a list of ids."""
    ids = packed(*[i for part in parts for i in part])
    pieces: list[Piece] = []
    start = 0
    for number, part in enumerate(parts):
        stop = start + len(part)
        pieces.append(
            Piece(
                segment="documents",
                volatility=Volatility.COLLECTION,
                start=start,
                stop=stop,
                own_stop=stop,
                document=f"{number}",
                digest=span_digest(ids, start, stop),
            )
        )
        start = stop
    return EarlierPrompt(
        request_id=name, template="docqa@1", rest=ids, pieces=tuple(pieces), session=session
    )


def recalled(lineages: Lineages, like: EarlierPrompt, key: LineageKey = KEY) -> list[str]:
    recollection = lineages.recall(key, like.pieces, like.packed)
    return [candidate.request_id for candidate in recollection.candidates]


def test_the_prompt_with_most_of_the_pieces_comes_first() -> None:
    lineages = Lineages()
    for earlier in (prompt("one", [1] * 9, [2] * 9), prompt("two", [3] * 9, [4] * 9)):
        lineages.learn(KEY, earlier)
    lineages.learn(KEY, prompt("three", [5] * 9))
    assert recalled(lineages, prompt("new", [2] * 9, [7] * 2, [1] * 9))[0] == "one"
    assert recalled(lineages, prompt("new", [4] * 9, [1] * 2))[0] == "two"


def test_a_prompt_that_is_like_none_is_compared_with_the_latest() -> None:
    lineages = Lineages()
    lineages.learn(KEY, prompt("one", [1] * 9))
    lineages.learn(KEY, prompt("two", [2] * 9))
    assert recalled(lineages, prompt("new", [3] * 9)) == ["two"]


def test_a_segment_that_varies_at_its_head_is_found_by_its_end() -> None:
    def instructions(head: int, name: str) -> tuple[EarlierPrompt, Lineages]:
        ids = packed(head, *range(100, 160), 1)
        piece = Piece(
            segment="instructions", volatility=Volatility.SESSION, start=0, stop=62, own_stop=62,
            digest=span_digest(ids, 0, 61),
        )  # fmt: skip
        lineages = Lineages()
        tails = lineages.recall(KEY, [piece], ids).tails
        return (
            EarlierPrompt(
                request_id=name, template="chat@1", rest=ids, pieces=(piece,), tails=tails
            ),
            lineages,
        )

    earlier, lineages = instructions(7, "one")
    lineages.learn(KEY, earlier)
    lineages.learn(KEY, prompt("two", [2] * 9))
    assert recalled(lineages, instructions(8, "new")[0])[0] == "one"


def test_other_salts_templates_and_collections_are_not_compared() -> None:
    lineages = Lineages()
    one = prompt("one", [1] * 9)
    lineages.learn(KEY, one)
    for other in (
        replace(KEY, salt="other"),
        replace(KEY, template="chat"),
        replace(KEY, collection="c"),
    ):
        assert recalled(lineages, one, other) == []


def test_a_prompt_is_dropped_once_a_later_one_has_all_its_lasting_pieces() -> None:
    lineages = Lineages()
    one, two = prompt("one", [1] * 9), prompt("two", [1] * 9, [2] * 9)
    lineages.learn(KEY, one)
    lineages.learn(KEY, two)
    lineages.compared(one, two)
    assert len(lineages) == 1
    lineages.compared(two, one)
    assert len(lineages) == 1


def test_an_answer_is_known_as_the_message_that_it_becomes() -> None:
    lineages = Lineages()
    one = prompt("one", [1] * 9)
    lineages.learn(KEY, one)
    lineages.answered(one, packed(50, 51, 52, 2))
    lineages.learn(KEY, prompt("two", [3] * 9))
    assert recalled(lineages, prompt("new", [9] * 3, [50, 51, 52]))[0] == "one"


@given(
    lengths=st.lists(st.integers(1, 200), min_size=1, max_size=40),
    most=st.integers(1, 10),
    room=st.integers(2_000, 20_000),
)
def test_lineages_never_outgrow_their_bounds(lengths: list[int], most: int, room: int) -> None:
    lineages = Lineages(max_prompts=most, max_bytes=room)
    for number, length in enumerate(lengths):
        key = replace(KEY, salt=f"salt-{number % 3}")
        lineages.learn(key, prompt(f"p{number}", [number] * length))
        assert len(lineages) <= most
        assert lineages.held_bytes <= room
    for salt in range(3):
        lineages.forget_salt(f"salt-{salt}")
    assert (len(lineages), lineages.held_bytes) == (0, 0)


few = st.lists(st.integers(0, 2), min_size=1, max_size=3)


@given(
    heads=st.lists(few, min_size=1, max_size=2),
    turns=st.lists(
        st.tuples(st.integers(0, 1), few, st.booleans(), st.none() | few, st.booleans()),
        max_size=12,
    ),
)
def test_the_latest_prompt_is_found_at_a_glance_where_a_thorough_look_finds_it(
    heads: list[list[int]], turns: list[tuple[int, list[int], bool, list[int] | None, bool]]
) -> None:
    """The same openings with other last messages, and answers that may be equal to any piece."""
    quick, thorough = Lineages(), Lineages()
    learnt: list[EarlierPrompt] = []
    for number, (head, asks, named, answer, compares) in enumerate(turns):
        made = prompt(f"p{number}", heads[head % len(heads)], asks)
        if not named:
            pieces = (*made.pieces[:-1], replace(made.pieces[-1], document=None))
            made = replace(made, pieces=pieces)
        for known in thorough._lineages.values():
            known.owns_all = False
        found = [each.recall(KEY, made.pieces, made.packed) for each in (quick, thorough)]
        assert found[0] == found[1]
        learnt.append(made)
        for each in (quick, thorough):
            each.learn(KEY, made)
            if compares and found[0].candidates:
                each.compared(found[0].candidates[0], made)
            if answer is not None:
                each.answered(learnt[number // 2], packed(*answer))
    assert len(quick) == len(thorough)


def test_an_opening_is_held_once_and_goes_with_its_last_prompt() -> None:
    lineages, opening = Lineages(max_prompts=2), packed(*range(1000))
    for number in range(3):
        made = prompt(f"{number}", [number])
        made.opening = bytes(bytearray(opening))  # equal, and another object
        lineages.learn(KEY, made)
    held = list(lineages._prompts)
    assert len(held) == 2
    assert held[0].opening is held[1].opening
    assert lineages.held_bytes == len(opening) + sum(each.weight for each in held)
    lineages.forget_salt(KEY.salt)
    assert (lineages.held_bytes, len(lineages)) == (0, 0)
