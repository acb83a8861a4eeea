"""The table of engine hashes is a multiset of pairs, whatever its words collide with."""

from collections import Counter

import hypothesis.strategies as st
from hypothesis import given

from cache.residency_names import NameTable

# Equal high halves collide; 64 more is the same shard.
names = st.sampled_from(
    [high << 32 | low for high in (0, 1, 2**31, 2**32 - 1) for low in (0, 64, 1)] + [-1, -(2**63)]
)
changes = st.lists(st.tuples(st.booleans(), names, st.integers(1, 5)), max_size=120)


@given(changes)
def test_it_holds_what_was_added_and_not_discarded(changes: list[tuple[bool, int, int]]) -> None:
    table, pairs = NameTable(), Counter[tuple[int, int]]()
    for add, name, number in changes:
        # Only 32 bits and the shard are kept of a name: whoever asks checks the rest.
        pair = ((name & (2**64 - 1)) >> 32 << 8 | name % 64, number)
        if add:
            table.add(name, number)
            pairs[pair] += 1
        else:
            table.discard(name, number)
            pairs[pair] = max(0, pairs[pair] - 1)
    for _, name, _ in changes:
        key = (name & (2**64 - 1)) >> 32 << 8 | name % 64
        kept = Counter({number: pairs[key, number] for number in range(1, 6)})
        assert Counter(table.numbers(name)) == +kept


def test_many_names_take_few_bytes_each() -> None:
    table = NameTable()
    multiplier = 0x9E3779B97F4A7C15
    made = [number * multiplier % 2**64 for number in range(1, 20_001)]
    for number, name in enumerate(made, 1):
        table.add(name, number)
    assert all(number in table.numbers(name) for number, name in enumerate(made, 1))
    assert table.memory_bytes / len(made) < 20
    for number, name in enumerate(made, 1):
        table.discard(name, number)
    assert not any(list(table.numbers(name)) for name in made[:1_000])


def test_one_name_may_have_more_marks_than_slots_after_the_last_home() -> None:
    table = NameTable()
    for number in range(1, 200):
        table.add(-64, number)
    assert sorted(table.numbers(-64)) == list(range(1, 200))
