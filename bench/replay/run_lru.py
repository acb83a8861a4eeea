"""An LRU of chained blocks by runs: a few steps a request, however long its prompt is.

A block belongs to the last request that touched it. What belongs to a request is always the end of
its path, since whatever touches a path touches it from its first block on; so it is found by its
first block, and a path passes through few of them.
"""

from collections import OrderedDict
from collections.abc import Sequence
from typing import NamedTuple


class Found(NamedTuple):
    """Leading blocks of what belonged to an earlier request."""

    since: int
    length: int


class RunLru:
    """Blocks by their last request, and requests by age. Ends of paths go first."""

    def __init__(self, capacity: float) -> None:
        """`capacity` in blocks; infinity keeps everything."""
        self.capacity = capacity
        self.held_blocks = 0
        # First block of what belongs to a request -> the request, which is numbered from 0.
        self._heads: dict[int, int] = {}
        self._runs: OrderedDict[int, Sequence[int]] = OrderedDict()
        self._requests = 0

    def held(self, path: Sequence[int]) -> int:
        """Leading blocks of a path that are held; nothing is touched."""
        depth = 0
        while depth < len(path):
            owner = self._heads.get(path[depth])
            if owner is None:
                break
            depth += shared_length(self._runs[owner], path, depth)
        return depth

    def touch(self, path: Sequence[int]) -> tuple[list[Found], list[Found]]:
        """Touch a path; returns what was there of it, in order, and what had to go for it."""
        heads, runs = self._heads, self._runs
        now = self._requests
        self._requests += 1
        found = []
        depth, end = 0, len(path)
        while depth < end:
            owner = heads.pop(path[depth], None)
            if owner is None:
                break
            run = runs[owner]
            length = shared_length(run, path, depth)
            found.append(Found(owner, length))
            if length < len(run):
                runs[owner] = rest = run[length:]
                heads[rest[0]] = owner
            else:
                del runs[owner]
            depth += length
        if end:
            heads[path[0]] = now
            runs[now] = path
            self.held_blocks += end - depth
        gone = []
        while self.held_blocks > self.capacity:
            gone.append(self._drop(int(self.held_blocks - self.capacity)))
        return found, gone

    def clear(self) -> None:
        """Hold nothing."""
        self._heads.clear()
        self._runs.clear()
        self.held_blocks = 0

    def _drop(self, blocks: int) -> Found:
        """Up to so many blocks from the end of what belongs to the oldest request."""
        owner, run = next(iter(self._runs.items()))
        dropped = min(blocks, len(run))
        if dropped == len(run):
            del self._runs[owner], self._heads[run[0]]
        else:
            self._runs[owner] = run[: len(run) - dropped]
        self.held_blocks -= dropped
        return Found(owner, dropped)


def shared_length(run: Sequence[int], path: Sequence[int], start: int) -> int:
    """Leading ids of `run` that `path` has from `start` on; the first is known to be one."""
    length = min(len(run), len(path) - start)
    if run[length - 1] == path[start + length - 1]:
        return length
    low, high = 1, length - 1
    while low < high:
        middle = (low + high + 1) // 2
        if run[middle - 1] == path[start + middle - 1]:
            low = middle
        else:
            high = middle - 1
    return low
