"""What one replica's prefix cache holds: blocks by least recent use, leaves before their roots."""

from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Iterable, Sequence

_FIRST = 2


class BlockCache:
    """An LRU over chained blocks. A block is never held without all that stand before it."""

    def __init__(self, capacity: float) -> None:
        """`capacity` in blocks; infinity keeps everything."""
        self.capacity = capacity
        # Least recently used first. A path is touched from its end to its root, so ends go first.
        self._blocks: OrderedDict[int, None] = OrderedDict()

    def __len__(self) -> int:
        return len(self._blocks)

    def held(self, path: Sequence[int]) -> int:
        """Leading blocks of a path that are held."""
        blocks = self._blocks
        # Most replicas hold nothing but what all prompts begin with.
        for depth, block in enumerate(path[:_FIRST]):
            if block not in blocks:
                return depth
        return bisect_left(path, True, lo=len(path[:_FIRST]), key=lambda b: b not in blocks)

    def use(self, path: Sequence[int]) -> list[int]:
        """Hold a path; returns the blocks that had to go."""
        blocks = self._blocks
        for block in reversed(path):
            blocks[block] = None
            blocks.move_to_end(block)
        gone: list[int] = []
        while len(blocks) > self.capacity:
            gone.append(blocks.popitem(last=False)[0])
        return gone

    def forget(self, gone: Iterable[int]) -> None:
        """Drop blocks. Whoever calls drops whole ends of paths."""
        for block in gone:
            self._blocks.pop(block, None)

    def clear(self) -> None:
        self._blocks.clear()
