"""Caches as one would write them down from their definitions: slow, and all their own.

A path is a string; its blocks are its beginnings. Room is made before a prompt is computed; what it
stands on stays.
"""

from collections.abc import Callable, Sequence

Held = dict[str, tuple[int, ...]]
Keys = Callable[[tuple[int, ...] | None, int], tuple[int, ...]]


def blocks_of(path: str) -> list[str]:
    """A path's blocks, first to last."""
    return [path[: n + 1] for n in range(len(path))]


def lru_key(old: tuple[int, ...] | None, now: int) -> tuple[int, ...]:
    """Least recently used first."""
    return (now,)


def lfu_key(old: tuple[int, ...] | None, now: int) -> tuple[int, ...]:
    """Least often used first."""
    return (1 if old is None else old[0] + 1, now)


def slru_key(old: tuple[int, ...] | None, now: int) -> tuple[int, ...]:
    """Used once first."""
    return (0 if old is None else 1, now)


def hits_by_key(paths: Sequence[str], capacity: int, key: Keys) -> list[int]:
    """Leading blocks that each request finds, where the leaf of the lowest key goes first."""
    held: Held = {}
    hits = []
    for now, path in enumerate(paths):
        blocks = blocks_of(path)[:capacity]
        found = [block for block in blocks if block in held]
        hits.append(len(found))
        for block in found:
            held[block] = key(held[block], now)
        while len(held) + len(blocks) - len(found) > capacity:
            leaves = [
                block
                for block in held
                if block not in blocks and not any(o != block and o.startswith(block) for o in held)
            ]
            del held[min(leaves, key=lambda block: (held[block], -len(block)))]
        for block in blocks[len(found) :]:
            held[block] = key(None, now)
    return hits


def gdsf_hits(paths: Sequence[str], capacity: int) -> list[int]:
    """The same for greedy dual, whose ranks start from that of what last went."""
    rank: dict[str, int] = {}
    count: dict[str, int] = {}
    last: dict[str, int] = {}
    floor = 0
    hits = []
    for now, path in enumerate(paths):
        blocks = blocks_of(path)[:capacity]
        found = [block for block in blocks if block in rank]
        hits.append(len(found))
        for block in found:
            count[block] += 1
            rank[block], last[block] = floor + count[block], now
        while len(rank) + len(blocks) - len(found) > capacity:
            leaves = [
                block
                for block in rank
                if block not in blocks and not any(o != block and o.startswith(block) for o in rank)
            ]
            goes = min(leaves, key=lambda block: (rank[block], last[block], -len(block)))
            floor = max(floor, rank.pop(goes))
        for block in blocks[len(found) :]:
            count[block], rank[block], last[block] = 1, floor + 1, now
    return hits


def best_hits(paths: Sequence[str], capacity: int) -> int:
    """The most blocks that can be found at all: every choice of what to keep is tried."""
    states: dict[frozenset[str], int] = {frozenset(): 0}
    for path in paths:
        blocks = blocks_of(path)
        following: dict[frozenset[str], int] = {}
        for held, hits in states.items():
            found = next((n for n, b in enumerate(blocks) if b not in held), len(blocks))
            for kept in _closed_subsets(held | set(blocks), capacity):
                following[kept] = max(following.get(kept, -1), hits + found)
        states = following
    return max(states.values(), default=0)


def _closed_subsets(blocks: set[str] | frozenset[str], capacity: int) -> list[frozenset[str]]:
    """All sets of at most `capacity` of the blocks that have each block's beginnings, too."""
    sets: list[frozenset[str]] = [frozenset()]
    for block in sorted(blocks, key=len):
        sets += [
            kept | {block}
            for kept in sets
            if len(kept) < capacity and (len(block) == 1 or block[:-1] in kept)
        ]
    return sets
