"""Every re-use of a trace with the room that it needs, in one pass: LRU at all capacities at once.

A path counts as touched from its end to its root, so a block's stack distance (Mattson) is all that
belongs to later requests (see `bench.replay.run_lru`), plus what stands before it in its own. The
distance grows along a path: what is found is always a beginning, and a larger cache holds all that
a smaller one does.
"""

from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import isfinite

import numpy as np
import numpy.typing as npt

from bench.replay.run_lru import RunLru
from bench.replay.steps import Step

_WIDTH = 128
_CHUNK_REQUESTS = 200_000

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReuseChunk:
    """Some requests in a row, and their re-uses: shape (requests,) and (re-uses,).

    A re-use is a run of blocks that one earlier request touched last; it needs room for `base` + 1,
    `base` + 2, … blocks.

    Attributes:
        first: number of the first request, from the trace's beginning.
        known: leading blocks of each prompt that any request before it had, whatever the room.
        at: the request that re-uses, counted from `first`.
        since: the earlier request, counted from the trace's beginning.
        length: blocks of the run.
    """

    first: int
    input_tokens: Ints
    known: Ints
    at: Ints
    since: Ints
    length: Ints
    base: Ints


class NotChainedError(ValueError):
    """A trace's ids don't stand for all that comes before them; `request` counts from 0."""

    def __init__(self, request: int) -> None:
        super().__init__(request)
        self.request = request

    def __str__(self) -> str:
        return (
            f"request {self.request + 1} has a block behind others than before: "
            "ids must stand for a block and all before it"
        )


class _Columns:
    """What becomes a chunk."""

    def __init__(self, first: int) -> None:
        self.first = first
        self.input_tokens, self.known = array("q"), array("q")
        self.at, self.since, self.length, self.base = (array("q") for _ in range(4))

    def chunk(self) -> ReuseChunk:
        return ReuseChunk(
            first=self.first,
            input_tokens=_ints(self.input_tokens),
            known=_ints(self.known),
            at=_ints(self.at),
            since=_ints(self.since),
            length=_ints(self.length),
            base=_ints(self.base),
        )


def _ints(values: "array[int]") -> Ints:
    return np.frombuffer(values, dtype=np.int64) if values else np.empty(0, dtype=np.int64)


def reuses(
    steps: Iterable[Step], *, most_blocks: float = float("inf"), chunk: int = _CHUNK_REQUESTS
) -> Iterator[ReuseChunk]:
    """All re-uses, in order.

    Args:
        most_blocks: the largest room of interest; re-uses that need more are left out, and memory
        is
            bounded by it (beside one bit a distinct block, for `known`).

    Raises:
        NotChainedError: a block comes behind others than before.
    """
    stack = _Stack(most_blocks)
    seen = SeenBlocks()
    columns = _Columns(0)
    for now, step in enumerate(steps):
        if len(columns.input_tokens) == chunk:
            yield columns.chunk()
            columns = _Columns(now)
        at = now - columns.first
        known = seen.add(step.path)
        columns.input_tokens.append(step.input_tokens)
        columns.known.append(min(known, step.usable))
        depth = 0
        for since, length, base in stack.touch(step.path):
            usable = min(length, step.usable - depth)
            depth += length
            if usable > 0:
                columns.at.append(at)
                columns.since.append(since)
                columns.length.append(usable)
                columns.base.append(base)
        if depth != known and not isfinite(most_blocks):
            raise NotChainedError(now)
    if columns.input_tokens:
        yield columns.chunk()


class _Stack:
    """A cache by age, and how much is younger than what each request left."""

    def __init__(self, most_blocks: float) -> None:
        self._lru = RunLru(most_blocks)
        self._ages = _Ages()
        self._requests = 0

    def touch(self, path: Sequence[int]) -> list[tuple[int, int, int]]:
        """Touch a path; returns what was there: earlier request, blocks, and blocks above them."""
        ages, depth, reused = self._ages, 0, []
        found, gone = self._lru.touch(path)
        for since, length in found:
            # What stands before it in this path lies above it, though it isn't counted yet.
            reused.append((since, length, ages.after(since) + depth))
            ages.add(since, -length)
            depth += length
        ages.add(self._requests, len(path))
        for since, length in gone:
            ages.add(since, -length)
        self._requests += 1
        return reused


class _Ages:
    """How many blocks belong to requests after a given one: sums on three levels."""

    def __init__(self) -> None:
        self._ones: list[int] = []
        self._many: list[int] = []
        self._most: list[int] = []

    def add(self, request: int, blocks: int) -> None:
        """More or fewer blocks belong to a request."""
        while request >= len(self._ones):
            self._ones += [0] * _WIDTH
            if len(self._ones) > len(self._many) * _WIDTH:
                self._many += [0] * _WIDTH
                self._most.append(0)
        self._ones[request] += blocks
        self._many[request // _WIDTH] += blocks
        self._most[request // (_WIDTH * _WIDTH)] += blocks

    def after(self, request: int) -> int:
        """Blocks of all later requests."""
        group = request // _WIDTH
        top = group // _WIDTH
        return (
            sum(self._ones[request + 1 : (group + 1) * _WIDTH])
            + sum(self._many[group + 1 : (top + 1) * _WIDTH])
            + sum(self._most[top + 1 :])
        )


class SeenBlocks:
    """Which blocks there ever were: a bit for each id, or a set where ids are huge."""

    _LARGEST_BIT = 1 << 33

    def __init__(self) -> None:
        self._bits = bytearray(1 << 16)
        self._others: set[int] = set()

    def __contains__(self, block: int) -> bool:
        if block >= self._LARGEST_BIT:
            return block in self._others
        place = block >> 3
        return place < len(self._bits) and bool(self._bits[place] >> (block & 7) & 1)

    def leading(self, path: Sequence[int]) -> int:
        """Leading blocks of a path that there were; none comes after one that there wasn't."""
        low, high = 0, len(path)
        while low < high:
            middle = (low + high) // 2
            if path[middle] in self:
                low = middle + 1
            else:
                high = middle
        return low

    def add(self, path: Sequence[int]) -> int:
        """There are these now; returns how many leading ones there were before."""
        known = self.leading(path)
        for block in path[known:]:
            if block >= self._LARGEST_BIT:
                self._others.add(block)
                continue
            place = block >> 3
            if place >= len(self._bits):
                self._bits.extend(bytes(max(len(self._bits), place + 1 - len(self._bits))))
            self._bits[place] |= 1 << (block & 7)
        return known
