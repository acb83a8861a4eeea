"""A radix tree over pages of token ids: what RadixAttention remembers, without the KV.

Every namespace (salt and extra key) has a tree of its own below one root. Nodes hold whole pages.
A path in use is locked from its last node to the root; only unlocked leaves can be evicted. Pure:
time is a counter, and what changed is left in `take_changes` for whoever publishes KV events.
"""

import heapq
from collections.abc import Sequence
from dataclasses import dataclass, field

from bench.engine_sim.changes import Change, Cleared, Namespace, Removed, Stored, page_digests
from bench.engine_sim.config import EvictionPolicy
from bench.errors import EvictionError

Tokens = tuple[int, ...]


@dataclass(slots=True, eq=False)
class Node:
    """Consecutive pages below a parent; `digests` has the chained hash of each page."""

    namespace: Namespace
    key: Tokens
    parent: "Node | None"
    digests: list[bytes] = field(default_factory=list)
    children: dict[Tokens, "Node"] = field(default_factory=dict)
    locks: int = 0
    last_access: int = 0
    priority: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Match:
    """The longest cached prefix: its tokens, and the node it ends at."""

    tokens: int
    node: Node


class RadixTree:
    """Cached prefixes of one replica.

    Invariants: a node's locks are at least those of any child; `evictable_tokens` +
    `protected_tokens` = `total_tokens`.
    """

    def __init__(
        self,
        *,
        page_size: int,
        policy: EvictionPolicy = EvictionPolicy.LRU,
        record_changes: bool = False,
    ) -> None:
        self.page_size = page_size
        self.total_tokens = 0
        self.protected_tokens = 0
        self._policy = policy
        self._record = record_changes
        self._changes: list[Change] = []
        self._roots: dict[Namespace, Node] = {}
        self._leaves: set[Node] = set()
        self._now = 0

    @property
    def evictable_tokens(self) -> int:
        return self.total_tokens - self.protected_tokens

    def match(self, namespace: Namespace, ids: Sequence[int], *, limit: int | None = None) -> Match:
        """The longest cached prefix of the first `limit` ids, in whole pages.

        Marks the path as just used, and splits the node that the prefix ends in.
        """
        self._now += 1
        end = self._page_floor(len(ids) if limit is None else min(limit, len(ids)))
        node = self._root(namespace)
        position = 0
        while position < end:
            child = node.children.get(tuple(ids[position : position + self.page_size]))
            if child is None:
                break
            shared = self._shared(child.key, ids, position, end)
            if shared < len(child.key):
                child = self._split(child, shared)
            child.last_access = self._now
            node = child
            position += shared
        return Match(tokens=position, node=node)

    def peek(self, namespace: Namespace, ids: Sequence[int]) -> int:
        """Tokens of the longest cached prefix, without marking anything as used."""
        node, position, end = self._root(namespace), 0, self._page_floor(len(ids))
        while position < end:
            child = node.children.get(tuple(ids[position : position + self.page_size]))
            if child is None:
                break
            shared = self._shared(child.key, ids, position, end)
            position += shared
            if shared < len(child.key):
                break
            node = child
        return position

    def insert(self, namespace: Namespace, ids: Sequence[int], *, priority: int = 0) -> int:
        """Remember the whole pages of `ids`; returns how many tokens were new."""
        found = self.match(namespace, ids)
        node: Node | None = found.node
        while node is not None and node.parent is not None:
            node.priority = max(node.priority, priority)
            node = node.parent
        key = tuple(ids[found.tokens : self._page_floor(len(ids))])
        if key:
            self._append(found.node, key, priority)
        return len(key)

    def lock(self, node: Node) -> None:
        """Protect a node and the path to it from eviction."""
        current: Node | None = node
        while current is not None and current.parent is not None:
            if current.locks == 0:
                self.protected_tokens += len(current.key)
                self._leaves.discard(current)
            current.locks += 1
            current = current.parent

    def unlock(self, node: Node) -> None:
        """Take one lock back."""
        current: Node | None = node
        while current is not None and current.parent is not None:
            assert current.locks > 0, "unlocked more often than locked"
            current.locks -= 1
            if current.locks == 0:
                self.protected_tokens -= len(current.key)
                self._note_leaf(current)
            current = current.parent

    def evict(self, tokens: int) -> int:
        """Free at least `tokens` by removing unlocked leaves; returns how many were freed.

        Whole nodes go, so more may be freed than asked; evict(0) is always safe.

        Raises:
            EvictionError: fewer tokens are evictable; nothing is removed.
        """
        if tokens > self.evictable_tokens:
            raise EvictionError(tokens, self.evictable_tokens)
        heap = [(self._rank(leaf), id(leaf), leaf) for leaf in self._leaves] if tokens > 0 else []
        heapq.heapify(heap)
        freed = 0
        while freed < tokens:
            leaf = heapq.heappop(heap)[2]
            freed += len(leaf.key)
            parent = self._remove(leaf)
            if parent in self._leaves:
                heapq.heappush(heap, (self._rank(parent), id(parent), parent))
        return freed

    def clear(self) -> None:
        """Forget everything. Nothing may be locked."""
        assert self.protected_tokens == 0, "a locked path can't be cleared"
        self._roots.clear()
        self._leaves.clear()
        self.total_tokens = 0
        if self._record:
            self._changes.append(Cleared())

    def take_changes(self) -> list[Change]:
        """What was stored, removed or cleared since the last call, in order."""
        changes, self._changes = self._changes, []
        return changes

    def _root(self, namespace: Namespace) -> Node:
        """A namespace's root; kept only once something is stored below it."""
        return self._roots.get(namespace) or Node(namespace, (), None)

    def _page_floor(self, tokens: int) -> int:
        return tokens - tokens % self.page_size

    def _shared(self, key: Tokens, ids: Sequence[int], position: int, end: int) -> int:
        """Leading tokens of `key` that equal ids[position:end], in whole pages."""
        length = min(len(key), end - position)
        if key[:length] == tuple(ids[position : position + length]):
            return length
        shared = self.page_size  # the caller found the child by its first page
        while key[shared : shared + self.page_size] == tuple(
            ids[position + shared : position + shared + self.page_size]
        ):
            shared += self.page_size
        return shared

    def _append(self, parent: Node, key: Tokens, priority: int) -> None:
        previous = parent.digests[-1] if parent.digests else None
        digests = (
            page_digests(key, self.page_size, previous=previous, salt=parent.namespace.salt)
            if self._record
            else []
        )
        node = Node(parent.namespace, key, parent, digests, last_access=self._now)
        node.priority = priority
        if parent.parent is None:
            self._roots[parent.namespace] = parent
        parent.children[key[: self.page_size]] = node
        self.total_tokens += len(key)
        self._leaves.discard(parent)
        self._leaves.add(node)
        if self._record:
            self._changes.append(Stored(parent.namespace, previous, tuple(digests), key))

    def _split(self, node: Node, length: int) -> Node:
        """Cut a node after `length` tokens; returns the upper part."""
        parent = node.parent
        assert parent is not None
        pages = length // self.page_size
        upper = Node(node.namespace, node.key[:length], parent, node.digests[:pages])
        upper.locks, upper.last_access = node.locks, node.last_access
        upper.priority = node.priority
        parent.children[upper.key[: self.page_size]] = upper
        node.key, node.digests, node.parent = node.key[length:], node.digests[pages:], upper
        upper.children[node.key[: self.page_size]] = node
        return upper

    def _remove(self, leaf: Node) -> Node:
        parent = leaf.parent
        assert parent is not None
        self._leaves.discard(leaf)
        del parent.children[leaf.key[: self.page_size]]
        self.total_tokens -= len(leaf.key)
        if self._record:
            self._changes.append(Removed(leaf.namespace, tuple(leaf.digests)))
        if parent.parent is None and not parent.children:
            self._roots.pop(parent.namespace, None)
        self._note_leaf(parent)
        return parent

    def _note_leaf(self, node: Node) -> None:
        if node.parent is not None and not node.children and node.locks == 0:
            self._leaves.add(node)

    def _rank(self, node: Node) -> tuple[int, int]:
        if self._policy is EvictionPolicy.PRIORITY:
            return (node.priority, node.last_access)
        return (0, node.last_access)
