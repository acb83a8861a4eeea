"""Every policy finds what an obvious implementation finds, at every capacity."""

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.replay.belady import belady, future
from bench.replay.curve import hit_blocks, lru_curve
from bench.replay.deadline_hints import DeadlineHints
from bench.replay.ideal_hints import IdealHintCache
from bench.replay.policies import CACHES, Cache
from bench.replay.ranked import Key, Lru, RankedCache
from bench.replay.reuse import reuses
from bench.replay.run_lru import RunLru
from bench.replay.steps import Step
from bench.traces import TraceRequest
from tests.bench.replay.oracles import (
    Keys,
    best_hits,
    blocks_of,
    gdsf_hits,
    hits_by_key,
    lfu_key,
    lru_key,
    slru_key,
)

PAGE = 4
PATHS = st.lists(st.text("ab", max_size=6), max_size=14)
CAPACITY = st.integers(1, 9)


def step(path: str, at_s: float = 0.0) -> Step:
    """A request for all blocks of a path and one token more."""
    blocks = [int("1" + block.replace("a", "1").replace("b", "2")) for block in blocks_of(path)]
    tokens = len(blocks) * PAGE + 1
    return Step(blocks, len(blocks), tokens, TraceRequest(at_s, blocks, tokens, 1))


def steps_of(paths: Sequence[str]) -> list[Step]:
    """A request every ten seconds."""
    return [step(path, 10.0 * number) for number, path in enumerate(paths)]


def found_by(cache: Cache, paths: Sequence[str]) -> list[int]:
    """Blocks that each request finds."""
    return [cache.use(each, now) for now, each in enumerate(steps_of(paths))]


@given(PATHS, CAPACITY)
def test_one_pass_of_reuses_is_an_lru_of_every_capacity(paths: list[str], capacity: int) -> None:
    """Stack distances, an LRU of runs and a plain LRU find the same blocks in each request."""
    naive = hits_by_key(paths, capacity, lru_key)
    [*chunks] = reuses(steps_of(paths), chunk=3)
    assert [int(n) for chunk in chunks for n in hit_blocks(chunk, capacity)] == naive
    lru = RunLru(capacity)
    for each, hits in zip(steps_of(paths), naive, strict=True):
        assert lru.held(each.path) == hits
        assert sum(run.length for run in lru.touch(each.path)[0]) == hits
        assert lru.held_blocks <= capacity
    assert found_by(RankedCache(capacity, Lru()), paths) == naive


@given(PATHS, CAPACITY)
def test_bounded_passes_find_the_same(paths: list[str], capacity: int) -> None:
    """With memory for the largest capacity only, smaller ones and the bound are the same."""
    whole = list(reuses(steps_of(paths)))
    bounded = list(reuses(steps_of(paths), most_blocks=capacity, chunk=4))
    for room in range(1, capacity + 1):
        one = lru_curve(whole, [room], page_tokens=PAGE)
        other = lru_curve(bounded, [room], page_tokens=PAGE)
        assert (one.sums, one.bound) == (other.sums, other.bound)


@pytest.mark.parametrize(("name", "key"), [("lfu", lfu_key), ("slru", slru_key)])
@given(paths=PATHS, capacity=CAPACITY)
def test_ranked_policies_find_what_their_definition_finds(
    name: str, key: Keys, paths: list[str], capacity: int
) -> None:
    """Leaves by key, and what a prompt stands on stays."""
    assert found_by(CACHES[name](capacity, PAGE), paths) == hits_by_key(paths, capacity, key)


@given(PATHS, CAPACITY)
def test_gdsf_finds_what_its_definition_finds(paths: list[str], capacity: int) -> None:
    """Ranks start from that of what last went."""
    assert found_by(CACHES["gdsf"](capacity, PAGE), paths) == gdsf_hits(paths, capacity)


@settings(max_examples=60)
@given(st.lists(st.text("ab", min_size=1, max_size=3), max_size=7), st.integers(1, 4))
def test_belady_finds_as_much_as_any_choice(paths: list[str], capacity: int) -> None:
    """No way to keep blocks finds more, and one finds as many."""
    sums = belady(future(list(reuses(steps_of(paths)))), capacity, page_tokens=PAGE)
    assert sums.hit_tokens == PAGE * best_hits(paths, capacity)


@given(PATHS, CAPACITY)
def test_no_policy_beats_belady_and_all_stay_within_their_room(
    paths: list[str], capacity: int
) -> None:
    """The optimum is one; hint caches hold no more than they may, and only whole beginnings."""
    best = belady(future(list(reuses(steps_of(paths)))), capacity, page_tokens=PAGE)
    for made in CACHES.values():
        assert sum(found_by(made(capacity, PAGE), paths)) * PAGE <= best.hit_tokens
    for cache in (
        IdealHintCache(capacity, PAGE),
        RankedCache(capacity, DeadlineHints(capacity, PAGE)),
    ):
        for now, each in enumerate(steps_of(paths)):
            cache.use(each, now)
            assert len(cache) <= capacity


class _Given(Lru):
    """Deadlines that a test gives, as SGLang has priorities: never lowered."""

    def __init__(self, deadlines: Sequence[int]) -> None:
        self._deadlines = deadlines

    def first(self, now: int) -> Key:
        return (self._deadlines[now], now)

    def again(self, key: Key, now: int) -> Key:
        return (max(key[0], self._deadlines[now]), now)


@given(st.data(), PATHS, CAPACITY)
def test_priorities_find_what_the_engines_order_finds(
    data: st.DataObject, paths: list[str], capacity: int
) -> None:
    """(priority, last use), where a priority is raised by whoever passes and never lowered."""
    size = len(paths)
    deadlines = data.draw(st.lists(st.integers(0, 3), min_size=size, max_size=size))

    def key(old: tuple[int, ...] | None, now: int) -> tuple[int, ...]:
        return (max(deadlines[now], old[0] if old else 0), now)

    cache = RankedCache(capacity, _Given(deadlines))
    assert found_by(cache, paths) == hits_by_key(paths, capacity, key)
