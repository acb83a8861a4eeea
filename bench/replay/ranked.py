"""Caches of blocks that evict by rank: LFU, SLRU, GDSF and whatever else gives blocks a key.

As in the engine, room for a prompt is made before it is computed, and not from what it stands on.
Keys must not be lower for a block than for those behind it; then what goes first is always the end
of a path. Of equal keys, the block farther behind goes first.
"""

import heapq
from collections.abc import Sequence
from typing import Any, Protocol

from bench.replay.steps import Step

# Compared in order; the lowest goes first.
Key = tuple[Any, ...]


class Ranking(Protocol):
    """Gives keys to blocks that a request touches."""

    def begin(self, step: Step, now: int) -> None:
        """A request comes; the calls after this are about its blocks."""
        ...

    def first(self, now: int) -> Key:
        """The key of a block that wasn't there."""
        ...

    def again(self, key: Key, now: int) -> Key:
        """The key of a block that had `key`."""
        ...

    def evicted(self, key: Key) -> None:
        """A block with that key went."""
        ...


class _Plain:
    """A ranking that needs to know neither the request nor what was evicted."""

    def begin(self, step: Step, now: int) -> None:
        """Nothing to note."""

    def evicted(self, key: Key) -> None:
        """Nothing to note."""


class Lru(_Plain):
    """Least recently used first."""

    def first(self, now: int) -> Key:
        return (now,)

    def again(self, key: Key, now: int) -> Key:
        return (now,)


class Lfu(_Plain):
    """Least often used first, counted since the block came; then least recently used."""

    def first(self, now: int) -> Key:
        return (1, now)

    def again(self, key: Key, now: int) -> Key:
        return (key[0] + 1, now)


class Slru(_Plain):
    """What was used only once first; then least recently used."""

    def first(self, now: int) -> Key:
        return (0, now)

    def again(self, key: Key, now: int) -> Key:
        return (1, now)


class Gdsf:
    """Greedy dual: how often a block was used, on top of the rank of what last went.

    All blocks have one size and one cost, so this is LFU that ages.
    """

    def __init__(self) -> None:
        self._floor = 0

    def begin(self, step: Step, now: int) -> None:
        """Nothing to note."""

    def first(self, now: int) -> Key:
        return (self._floor + 1, now, 1)

    def again(self, key: Key, now: int) -> Key:
        count = key[2] + 1
        return (self._floor + count, now, count)

    def evicted(self, key: Key) -> None:
        self._floor = max(self._floor, key[0])


class RankedCache:
    """Blocks by key. What is held is closed: no block without all that stand before it."""

    def __init__(self, capacity: int, ranking: Ranking) -> None:
        """`capacity` in blocks."""
        self.capacity = capacity
        self._ranking = ranking
        self._keys: dict[int, Key] = {}
        # One entry a held block; its key may be older than the block's.
        self._order: list[tuple[Key, int, int]] = []

    def __len__(self) -> int:
        return len(self._keys)

    def held(self, path: Sequence[int]) -> int:
        """Leading blocks of a path that are held."""
        keys = self._keys
        for depth, block in enumerate(path):
            if block not in keys:
                return depth
        return len(path)

    def use(self, step: Step, now: int) -> int:
        """Compute and hold a request's path, as far as it fits; returns what was held of it."""
        ranking, keys, path = self._ranking, self._keys, step.path[: self.capacity]
        ranking.begin(step, now)
        held = self.held(path)
        for block in path[:held]:
            keys[block] = ranking.again(keys[block], now)
        self._make_room(len(path) - held, frozenset(path[:held]))
        for depth in range(held, len(path)):
            keys[path[depth]] = key = ranking.first(now)
            heapq.heappush(self._order, (key, -depth, path[depth]))
        return held

    def _make_room(self, blocks: int, locked: frozenset[int]) -> None:
        keys, order = self._keys, self._order
        waiting = []
        while len(keys) + blocks > self.capacity:
            key, depth, block = heapq.heappop(order)
            current = keys[block]
            if block in locked:
                waiting.append((current, depth, block))
            elif current != key:
                heapq.heappush(order, (current, depth, block))
            else:
                del keys[block]
                self._ranking.evicted(key)
        for entry in waiting:
            heapq.heappush(order, entry)
