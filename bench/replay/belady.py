"""The optimum: whatever is asked for again last goes first (Belady), for one capacity at a time.

On chained blocks it is exactly optimal: a block is never asked for later than what stands behind
it, so what goes first is always the end of a path. Of blocks that are wanted at the same time,
those farther behind go first. Nothing has to be kept, not even what was just computed, so no policy
that knows less can do better.
"""

import heapq
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from bench.replay.curve import Sums
from bench.replay.reuse import Ints, ReuseChunk


@dataclass(frozen=True, slots=True, kw_only=True)
class Future:
    """What each request leaves behind that is asked for again: runs of blocks, by request.

    Runs `starts[r]` to `starts[r + 1]` are those of request r: `wanted_at` says by which request
    each is asked for, `length` how many blocks it has.
    """

    input_tokens: Ints
    starts: Ints
    wanted_at: Ints
    length: Ints


def future(chunks: Sequence[ReuseChunk]) -> Future:
    """The re-uses of a whole trace, by the request that is re-used."""
    if not chunks:
        nothing = np.empty(0, dtype=np.int64)
        starts = np.zeros(1, dtype=np.int64)
        return Future(input_tokens=nothing, starts=starts, wanted_at=nothing, length=nothing)
    since = np.concatenate([c.since for c in chunks])
    order = np.argsort(since, kind="stable")
    tokens = np.concatenate([c.input_tokens for c in chunks])
    return Future(
        input_tokens=tokens,
        starts=np.searchsorted(since[order], np.arange(len(tokens) + 1)),
        wanted_at=np.concatenate([c.at + c.first for c in chunks])[order],
        length=np.concatenate([c.length for c in chunks])[order],
    )


def belady(trace: Future, capacity: int, *, page_tokens: int, skip: int = 0) -> Sums:
    """What the optimum finds with room for `capacity` blocks."""
    starts, wanted_at, length = (a.tolist() for a in (trace.starts, trace.wanted_at, trace.length))
    # Blocks that are held, by when they are wanted; and those times, the latest first.
    held: dict[int, int] = {}
    latest: list[int] = []
    room = capacity
    hits = 0
    for now, tokens in enumerate(trace.input_tokens.tolist()):
        blocks = held.pop(now, 0)
        room += blocks
        if now >= skip:
            hits += min(blocks * page_tokens, tokens - 1)
        for run in range(starts[now], starts[now + 1]):
            when = wanted_at[run]
            if when not in held:
                held[when] = 0
                heapq.heappush(latest, -when)
            held[when] += length[run]
            room -= length[run]
        while room < 0:
            last = -latest[0]
            goes = min(held[last], -room)
            room += goes
            if goes == held[last]:
                heapq.heappop(latest)
                del held[last]
            else:
                held[last] -= goes
    counted = trace.input_tokens[skip:]
    return Sums(requests=len(counted), input_tokens=int(counted.sum()), hit_tokens=hits)
