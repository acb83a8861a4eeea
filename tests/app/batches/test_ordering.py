"""The order of a batch's requests: a permutation, always the same, and one that re-uses more."""

import random
from collections import Counter, OrderedDict
from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from app.batches.ordering import (
    LEAST_SHARED_BYTES,
    Place,
    Rotation,
    prefix_order,
    shared_bytes,
)

KEYS = st.lists(st.lists(st.sampled_from([b"a", b"b", b"cc"]), max_size=8).map(b"".join))
PAGE = 256


def hits(keys: Sequence[bytes], order: Sequence[int], *, pages: int) -> int:
    """Bytes that a radix cache of so many pages re-uses: least recently used leaves go first."""
    held: OrderedDict[bytes, None] = OrderedDict()
    reused = 0
    for number in order:
        key = keys[number]
        ends = range(PAGE, len(key) + 1, PAGE)
        found = True
        for end in ends:
            found = found and key[:end] in held
            reused += PAGE * found
        for end in reversed(ends):  # the beginning is used last: it goes last
            held[key[:end]] = None
            held.move_to_end(key[:end])
        while len(held) > pages:
            held.popitem(last=False)
    return reused


def test_twenty_prefixes_in_a_pool_that_holds_four() -> None:
    """1,000 lines, shuffled: in prefix order at least 95 % of what could be re-used is."""
    chance = random.Random(8)
    prefixes = [chance.randbytes(8 * PAGE) for _ in range(20)]
    keys = [prefixes[n % 20] + chance.randbytes(PAGE) for n in range(1000)]
    chance.shuffle(keys)
    ideal = (1000 - 20) * 8 * PAGE
    pool = 4 * 8 + 4
    in_order = hits(keys, [place.number for place in prefix_order(keys)], pages=pool)
    in_files_order = hits(keys, range(1000), pages=pool)
    assert in_order >= 0.95 * ideal
    assert in_files_order <= 0.30 * ideal


@given(KEYS)
def test_it_is_a_permutation_and_always_the_same(keys: list[bytes]) -> None:
    order = prefix_order(keys)
    assert sorted(place.number for place in order) == list(range(len(keys)))
    assert order == prefix_order(keys)


@given(KEYS, st.randoms(use_true_random=False))
def test_the_files_own_order_doesnt_matter(keys: list[bytes], chance: random.Random) -> None:
    shuffled = keys[:]
    chance.shuffle(shuffled)
    assert [keys[p.number] for p in prefix_order(keys)] == [
        shuffled[p.number] for p in prefix_order(shuffled)
    ]


@given(KEYS)
def test_what_shares_a_beginning_is_together(keys: list[bytes]) -> None:
    """Depth-first: of any beginning, all requests that have it follow one another."""
    ordered = [keys[place.number] for place in prefix_order(keys)]
    for beginning in {key[:end] for key in keys for end in range(1, len(key) + 1)}:
        places = [at for at, key in enumerate(ordered) if key.startswith(beginning)]
        assert places == list(range(places[0], places[-1] + 1))


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 9)), max_size=60), st.integers(1, 30))
def test_never_less_is_reused_than_in_the_files_order(
    lines: list[tuple[int, int]], held: int
) -> None:
    """Whatever the pool, where prompts are a shared beginning and an end of their own."""
    keys = [bytes([65 + one]) * 3 * PAGE + bytes([other]) * PAGE for one, other in lines]
    ordered = hits(keys, [p.number for p in prefix_order(keys)], pages=held * 4)
    assert ordered >= hits(keys, range(len(keys)), pages=held * 4)


@given(st.binary(max_size=40), st.binary(max_size=40), st.binary(max_size=20))
def test_what_two_share_is_counted(head: bytes, one: bytes, other: bytes) -> None:
    a, b = head + one, head + other
    naive = next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), None)
    assert shared_bytes(a, b) == (min(len(a), len(b)) if naive is None else naive)


def test_the_first_of_a_branch_leads() -> None:
    long, other = b"x" * LEAST_SHARED_BYTES, b"y" * LEAST_SHARED_BYTES
    keys = [long + b"1", long + b"2", long + b"3", other + b"1", b"z"]
    assert prefix_order(keys) == [
        Place(0, leads=True),
        Place(1, leads=False),
        Place(2, leads=False),
        Place(3, leads=False),
        Place(4, leads=False),
    ]


def test_batches_take_turns_by_tenant() -> None:
    """One tenant's three batches get no more than another's one."""
    rotation = Rotation(run=4)
    ready = [("a", "a1"), ("a", "a2"), ("a", "a3"), ("b", "b1")]
    taken = [rotation.take(ready) for _ in range(48)]
    counts = Counter(taken)
    assert counts["b1"] == 24
    assert {counts["a1"], counts["a2"], counts["a3"]} == {8}
    assert taken[:4] == ["a1"] * 4, "a run stays together"


@given(st.lists(st.sets(st.integers(0, 5), min_size=1), min_size=1, max_size=200))
def test_nobody_who_could_send_waits_for_ever(rounds: list[set[int]]) -> None:
    rotation = Rotation(run=3)
    waited = Counter[str]()
    for ready in rounds:
        named = [(f"t{n % 3}", f"b{n}") for n in sorted(ready)]
        taken = rotation.take(named)
        assert taken in {batch for _, batch in named}
        for _, batch in named:
            waited[batch] += 1
        waited[taken] = 0
        assert max(waited.values()) <= 3 * 6 * 3


def test_none_ready_is_none_taken() -> None:
    assert Rotation().take([]) is None
