"""By an engine's own events, the index knows what the engine's tree holds, and claims no more."""

import random

import pytest

from bench.engine_sim.changes import Namespace
from bench.engine_sim.events import encode_batch
from bench.engine_sim.radix import RadixTree
from cache.errors import PageSizeError
from cache.kv_events import (
    AllBlocksCleared,
    BlockRemoved,
    BlockStored,
    StoredTogether,
    decode_batch,
)
from cache.naive_index import NaiveIndex
from cache.prefix_index import PrefixIndex
from tests.cache.prefix_tree_checks import check_tree

PAGE = 4
SALTS = ("s", "t")
POOL_TOKENS = 400


class Replica:
    """A radix tree like the engine's, with too little room, and its events."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.tree = RadixTree(page_size=PAGE, record_changes=True)

    def compute(self, ids: list[int], salt: str) -> None:
        self.tree.insert(Namespace(salt), ids)
        self.tree.evict(max(0, self.tree.total_tokens - POOL_TOKENS))

    def tell(self, index: PrefixIndex | NaiveIndex, at: float) -> None:
        payload = encode_batch(self.tree.take_changes(), page_size=PAGE, at_s=at)
        for event in decode_batch(payload).events:
            match event:
                case BlockStored():
                    index.stored(self.name, event, at=at)
                case BlockRemoved():
                    index.removed(self.name, event, at=at)
                case AllBlocksCleared():
                    index.cleared(self.name, at=at)


@pytest.mark.parametrize("seed", range(5))
def test_pages_stored_together_are_noted_as_if_one_by_one(seed: int) -> None:
    chance = random.Random(seed)
    one_by_one = PrefixIndex(page_tokens=PAGE, key=b"k")
    together, waiting = PrefixIndex(page_tokens=PAGE, key=b"k"), StoredTogether()
    replica, prompts = Replica("one"), [prompt(chance) for _ in range(40)]
    for number in range(200):
        ids, salt = chance.choice(prompts), chance.choice(SALTS)
        replica.compute(ids[: chance.randint(0, len(ids))], salt)
        replica.compute(ids, salt)
        # Decoded twice: what is put together is changed.
        payload = encode_batch(replica.tree.take_changes(), page_size=PAGE, at_s=0.0)
        for event, other in zip(
            decode_batch(payload).events, decode_batch(payload).events, strict=True
        ):
            if isinstance(event, BlockStored) and isinstance(other, BlockStored):
                one_by_one.stored("one", event, at=1.0)
                waiting.add(other)
                continue
            assert isinstance(event, BlockRemoved)
            one_by_one.removed("one", event, at=1.0)
            store(together, waiting)
            together.removed("one", event, at=1.0)
        if number % 10 == 0:
            store(together, waiting)
            check_tree(together._tree)
            for ids in prompts:
                keys = one_by_one.keys(ids)
                for salt in SALTS:
                    matches = [
                        index.match(keys, salt=salt, sent_at=2.0)
                        for index in (one_by_one, together)
                    ]
                    assert matches[0] == matches[1]


def store(index: PrefixIndex, waiting: StoredTogether) -> None:
    for event in waiting.taken():
        index.stored("one", event, at=1.0)
    assert waiting.count == 0


def test_events_behind_one_that_is_refused_can_still_be_told() -> None:
    index = PrefixIndex(page_tokens=2, key=b"k")
    events = iter([event([1]), event([2], page=3), event([3])])
    with pytest.raises(PageSizeError):
        index.all_stored("one", events, at=1.0)
    index.all_stored("one", events, at=1.0)
    for name, resident in ((1, 1), (2, 0), (3, 1)):
        match = index.match(index.keys([name, name]), salt="s", sent_at=2.0)
        assert match.replicas["one"].resident == resident


def event(names: list[int], *, page: int = 2) -> BlockStored:
    return BlockStored(
        block_hashes=names,
        parent_block_hash=None,
        token_ids=[name for name in names for _ in range(page)],
        block_size=page,
        cache_salt="s",
    )


@pytest.mark.parametrize("seed", range(3))
def test_what_is_resident_is_what_the_engines_hold(seed: int) -> None:
    chance = random.Random(seed)
    index = PrefixIndex(page_tokens=PAGE, key=b"k")
    replicas = [Replica("one"), Replica("two")]
    for one in replicas:
        index.cleared(one.name, at=-1.0)
    for number in range(150):
        replica, salt, ids = chance.choice(replicas), chance.choice(SALTS), prompt(chance)
        keys, at = index.keys(ids), float(number)
        told_first = chance.random() < 0.5
        replica.compute(ids, salt)
        if told_first:
            replica.tell(index, at)
        index.computed(keys, salt=salt, replica=replica.name, at=at - 0.5)
        if not told_first:
            replica.tell(index, at)
        if chance.random() < 0.02:
            replica.tree.clear()
            replica.tell(index, at + 0.2)
        asked = index.keys(wanted := prompt(chance))
        for one in replicas:
            for each in SALTS:
                found = index.match(asked, salt=each, sent_at=at).replicas[one.name]
                held = one.tree.peek(Namespace(each), wanted) // PAGE
                assert found.resident == held
    check_tree(index._tree)


@pytest.mark.parametrize("seed", range(3))
def test_without_some_of_the_events_nothing_that_is_gone_is_claimed(seed: int) -> None:
    chance = random.Random(seed)
    index = PrefixIndex(page_tokens=PAGE, key=b"k")
    replica, unknown = Replica("one"), 0
    for number in range(150):
        ids, at = prompt(chance), float(number)
        replica.compute(ids, "s")
        if chance.random() < 0.05:
            replica.tree.take_changes()
            index.evidence_lost("one", at=at)
        replica.tell(index, at)
        index.computed(index.keys(ids), salt="s", replica="one", at=at - 0.5)
        wanted = prompt(chance)
        found = index.match(index.keys(wanted), salt="s", sent_at=at).replicas["one"]
        held = replica.tree.peek(Namespace("s"), wanted) // PAGE
        assert found.resident_at_least <= held
        unknown += found.resident is None
    assert 0 < unknown < 150


@pytest.mark.parametrize("seed", range(3))
def test_a_small_index_forgets_but_claims_no_more_than_one_that_forgets_nothing(seed: int) -> None:
    chance = random.Random(seed)
    index = PrefixIndex(page_tokens=PAGE, max_pages=60, key=b"k")
    naive = NaiveIndex(page_tokens=PAGE, key=b"k")
    replicas = [Replica("one"), Replica("two")]
    for number in range(150):
        replica, salt, ids = chance.choice(replicas), chance.choice(SALTS), prompt(chance)
        keys, at = index.keys(ids), float(number)
        replica.compute(ids, salt)
        changes = replica.tree.take_changes()
        for one in (index, naive):
            replica.tree._changes = list(changes)
            replica.tell(one, at)
            one.computed(keys, salt=salt, replica=replica.name, at=at)
            one.tiered(keys, salt=salt, at=at)
        assert index.pages <= 60
        check_tree(index._tree)
        asked = index.keys(prompt(chance))
        small, whole = (one.match(asked, salt=salt, sent_at=at) for one in (index, naive))
        assert small.left <= whole.left
        assert small.tiered <= whole.tiered
        assert small.other_salts <= whole.other_salts
        for name, found in small.replicas.items():
            assert found.resident_at_least <= whole.replicas[name].resident_at_least
        assert index.match(keys, salt=salt, sent_at=at).left == len(keys), "the newest is kept"


def prompt(chance: random.Random) -> list[int]:
    """Two openings, a few middles, and many ends."""
    words = [chance.randrange(2), 10 + chance.randrange(3), 100 + chance.randrange(40)]
    pages = [page for word in words for page in [word] * (1 + word % 5)]
    return [token for page in pages for token in [page] * PAGE][: chance.randrange(8, 64)]
