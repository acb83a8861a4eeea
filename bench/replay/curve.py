"""Hit rates of an LRU by capacity, from the re-uses of a trace; tiers are places on that curve."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np

from bench.replay.reuse import Ints, ReuseChunk


@dataclass(frozen=True, slots=True, kw_only=True)
class Sums:
    """Tokens of some requests; a rate is of prompt tokens."""

    requests: int = 0
    input_tokens: int = 0
    hit_tokens: int = 0

    @property
    def hit_rate(self) -> float | None:
        """Hit tokens over prompt tokens; None without any."""
        return self.hit_tokens / self.input_tokens if self.input_tokens else None

    def plus(self, requests: int, input_tokens: int, hit_tokens: int) -> "Sums":
        """With more of them."""
        return Sums(
            requests=self.requests + requests,
            input_tokens=self.input_tokens + input_tokens,
            hit_tokens=self.hit_tokens + hit_tokens,
        )


@dataclass(slots=True)
class Curve:
    """Sums at each capacity, and `bound` with room for everything.

    Attributes:
        page_tokens: of a block.
        capacities: in blocks, any order.
        skip: requests that only fill the cache and aren't counted.
    """

    page_tokens: int
    capacities: Sequence[int]
    skip: int = 0
    sums: list[Sums] = field(init=False)
    bound: Sums = field(init=False, default_factory=Sums)

    def __post_init__(self) -> None:
        self.sums = [Sums() for _ in self.capacities]

    def add(self, chunk: ReuseChunk) -> None:
        """Count a chunk's requests."""
        start = max(0, self.skip - chunk.first)
        tokens = chunk.input_tokens[start:]
        if not len(tokens):
            return
        requests, asked = len(tokens), int(tokens.sum())
        self.bound = self.bound.plus(requests, asked, self._tokens(chunk.known[start:], tokens))
        for number, capacity in enumerate(self.capacities):
            hits = hit_blocks(chunk, capacity)[start:]
            self.sums[number] = self.sums[number].plus(requests, asked, self._tokens(hits, tokens))

    def _tokens(self, blocks: Ints, tokens: Ints) -> int:
        return int(np.minimum(blocks * self.page_tokens, tokens - 1).sum())


def hit_blocks(chunk: ReuseChunk, capacity: int) -> Ints:
    """Blocks that an LRU of `capacity` blocks finds: shape (requests,)."""
    found = np.clip(capacity - chunk.base, 0, chunk.length)
    counted = np.bincount(chunk.at, weights=found, minlength=len(chunk.input_tokens))
    return counted.astype(np.int64)


def lru_curve(
    chunks: Iterable[ReuseChunk], capacities: Sequence[int], *, page_tokens: int, skip: int = 0
) -> Curve:
    """The curve of a whole trace."""
    curve = Curve(page_tokens=page_tokens, capacities=capacities, skip=skip)
    for chunk in chunks:
        curve.add(chunk)
    return curve


def by_tier(curve: Curve) -> list[int]:
    """Hit tokens that come from each tier, where the curve's capacities are those of the tiers.

    A hierarchy in which whatever is used is written through to all tiers, and each keeps what was
    used last: a tier holds all that the ones above it hold, so it adds what its own room adds.
    """
    hits = [0, *(sums.hit_tokens for sums in curve.sums)]
    return [more - fewer for fewer, more in pairwise(hits)]
