"""The radix tree against its naive twin: any order of calls, the same answers."""

from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, multiple, rule

from bench.engine_sim.changes import (
    Change,
    Cleared,
    Namespace,
    Removed,
    Stored,
    block_hash,
    page_digests,
)
from bench.engine_sim.config import EvictionPolicy
from bench.engine_sim.naive import NaivePrefixCache, Page
from bench.engine_sim.radix import Node, RadixTree
from bench.errors import EvictionError

PAGE = 2
NAMESPACES = (Namespace(), Namespace("a"), Namespace("a", "k"))

# Few different tokens, so that prefixes are shared, cut and shared again.
prompts = st.lists(st.integers(1, 3), max_size=14).map(tuple)
namespaces = st.sampled_from(NAMESPACES)


class _RadixMachine(RuleBasedStateMachine):
    """Drives tree and twin; `mirror` is the cache as a reader of the changes would know it."""

    policy = EvictionPolicy.LRU
    known: Bundle[tuple[Namespace, tuple[int, ...]]] = Bundle("known")
    locked: Bundle[tuple[Node, Page]] = Bundle("locked")

    def __init__(self) -> None:
        super().__init__()
        self.tree = RadixTree(page_size=PAGE, policy=self.policy, record_changes=True)
        self.twin = NaivePrefixCache(page_size=PAGE)
        self.mirror: dict[tuple[Namespace, bytes], Page] = {}

    @rule(namespace=namespaces, ids=prompts, limit=st.none() | st.integers(0, 14))
    def match(self, namespace: Namespace, ids: tuple[int, ...], limit: int | None) -> None:
        expected = self.twin.match(namespace, ids, limit=limit)
        assert self.tree.peek(namespace, ids[:limit]) == expected
        assert self.tree.match(namespace, ids, limit=limit).tokens == expected

    @rule(target=known, namespace=namespaces, ids=prompts, priority=st.integers(0, 2))
    def insert(
        self, namespace: Namespace, ids: tuple[int, ...], priority: int
    ) -> tuple[Namespace, tuple[int, ...]]:
        new = self.tree.insert(namespace, ids, priority=priority)
        assert new == self.twin.insert(namespace, ids, priority=priority)
        return (namespace, ids)

    @rule(prompt=known, priority=st.integers(0, 2))
    def insert_again(self, prompt: tuple[Namespace, tuple[int, ...]], priority: int) -> None:
        assert self.tree.insert(*prompt, priority=priority) == self.twin.insert(
            *prompt, priority=priority
        )

    @rule(prompt=known, length=st.integers(0, 14))
    def match_a_known_one(self, prompt: tuple[Namespace, tuple[int, ...]], length: int) -> None:
        self.match(*prompt, limit=length)

    @rule(target=locked, prompt=known, length=st.integers(1, 14))
    def lock(self, prompt: tuple[Namespace, tuple[int, ...]], length: int) -> Any:
        namespace, ids = prompt[0], prompt[1][:length]
        self.twin.match(namespace, ids)
        found = self.tree.match(namespace, ids)
        if found.tokens == 0:
            return multiple()
        self.tree.lock(found.node)
        page = (namespace, ids[: found.tokens])
        self.twin.lock(page)
        return (found.node, page)

    @rule(held=consumes(locked))
    def unlock(self, held: tuple[Node, Page]) -> None:
        node, page = held
        self.tree.unlock(node)
        self.twin.unlock(page)

    @rule(tokens=st.integers(0, 6))
    def evict(self, tokens: int) -> None:
        self.read_changes()
        if tokens > self.tree.evictable_tokens:
            before = self.tree.total_tokens
            with pytest.raises(EvictionError):
                self.tree.evict(tokens)
            assert self.tree.total_tokens == before
            return
        freed = self.tree.evict(tokens)
        gone = self.read_changes()
        assert freed == len(gone) * PAGE
        assert freed >= tokens
        assert not any(self.twin.is_locked(page) for page in gone)
        ranks = [self.rank(page) for page in gone]
        self.twin.remove(gone)
        left = [self.rank(page) for page in self.twin.leaves()]
        assert not ranks or not left or max(ranks) <= min(left)

    @rule(rarely=st.integers(0, 9))
    def clear(self, rarely: int) -> None:
        if rarely or self.tree.protected_tokens:
            return
        self.tree.clear()
        self.twin.clear()

    @invariant()
    def agrees(self) -> None:
        self.read_changes()
        assert self.tree.total_tokens == self.twin.total_tokens
        assert self.tree.protected_tokens == self.twin.protected_tokens
        assert self.tree.evictable_tokens + self.tree.protected_tokens == self.tree.total_tokens
        assert set(self.mirror.values()) == self.twin.pages()

    def rank(self, page: Page) -> tuple[int, int]:
        priority, last_access = self.twin.rank(page)
        return (priority if self.policy is EvictionPolicy.PRIORITY else 0, last_access)

    def read_changes(self) -> list[Page]:
        """Keep the mirror as a subscriber would; returns the pages that were removed."""
        gone: list[Page] = []
        for change in self.tree.take_changes():
            gone += self.apply(change)
        return gone

    def apply(self, change: Change) -> list[Page]:
        match change:
            case Cleared():
                self.mirror.clear()
            case Stored(namespace=namespace, parent=parent, digests=digests, token_ids=ids):
                before = () if parent is None else self.mirror[(namespace, parent)][1]
                for index, digest in enumerate(digests):
                    whole = before + ids[: (index + 1) * PAGE]
                    self.mirror[(namespace, digest)] = (namespace, whole)
            case Removed(namespace=namespace, digests=digests):
                return [self.mirror.pop((namespace, digest)) for digest in digests]
        return []


class _PriorityMachine(_RadixMachine):
    policy = EvictionPolicy.PRIORITY


TestLru = _RadixMachine.TestCase
TestLru.settings = settings(max_examples=50, stateful_step_count=40, deadline=None)
TestPriority = _PriorityMachine.TestCase
TestPriority.settings = TestLru.settings


def test_evict_never_removes_a_locked_node() -> None:
    tree = RadixTree(page_size=2)
    tree.insert(NAMESPACES[0], [1, 1, 2, 2])
    tree.insert(NAMESPACES[0], [1, 1, 3, 3])
    tree.lock(tree.match(NAMESPACES[0], [1, 1, 2, 2]).node)
    assert tree.evict(2) == 2
    assert tree.match(NAMESPACES[0], [1, 1, 2, 2]).tokens == 4
    assert tree.match(NAMESPACES[0], [1, 1, 3, 3]).tokens == 2
    with pytest.raises(EvictionError, match="only 0 are not locked"):
        tree.evict(1)


def test_a_higher_priority_outlives_a_later_use() -> None:
    tree = RadixTree(page_size=2, policy=EvictionPolicy.PRIORITY)
    tree.insert(NAMESPACES[0], [1, 1], priority=5)
    tree.insert(NAMESPACES[0], [2, 2])
    tree.evict(2)
    assert tree.peek(NAMESPACES[0], [1, 1]) == 2
    assert tree.peek(NAMESPACES[0], [2, 2]) == 0


def test_a_later_request_of_higher_priority_lifts_the_whole_path() -> None:
    tree = RadixTree(page_size=2, policy=EvictionPolicy.PRIORITY)
    tree.insert(NAMESPACES[0], [1, 1, 1, 1])
    tree.insert(NAMESPACES[0], [1, 1], priority=5)
    tree.insert(NAMESPACES[0], [2, 2], priority=3)
    assert tree.evict(2) == 2
    assert tree.evict(2) == 2
    assert tree.peek(NAMESPACES[0], [1, 1]) == 2


def test_digests_are_those_of_a_real_engine() -> None:
    """Figures from the KV events of SGLang 0.5.23 for a salted prompt."""
    (digest,) = page_digests(REAL_PAGE, 16, previous=None, salt="i1")
    assert block_hash(digest) == -7966064172108609074


REAL_PAGE = (
    *(850, 2631, 3771, 3586, 3428, 558, 1344, 782),
    *(2329, 3416, 2141, 2234, 2968, 1854, 3530, 1159),
)
