"""Made-up traffic of any length: conversations below shared openings, in bounded memory.

A seed decides everything. A conversation begins with one of a few openings (their popularity falls
as 1/rank), each turn adds what was said, and it goes on with a fixed chance after a pause.
"""

import heapq
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from random import Random

from bench.traces.request import Trace, TraceRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class SyntheticOptions:
    """What is made.

    Attributes:
        openings: shared openings of `opening_blocks` blocks each.
        go_on: chance that a turn is followed by another.
        pause_s: mean seconds between turns.
        turn_blocks: most blocks that a turn adds; the least is 1.
        most_blocks: a conversation ends before its prompt is longer.
    """

    requests: int
    seed: int = 1
    block_tokens: int = 512
    per_s: float = 100.0
    openings: int = 50
    opening_blocks: int = 4
    go_on: float = 0.6
    pause_s: float = 60.0
    turn_blocks: int = 6
    most_blocks: int = 64


def synthetic_trace(options: SyntheticOptions) -> Trace:
    """Such traffic as a trace: each time it is gone through it is the same."""
    return Trace(
        name=f"synthetic-{options.requests}-seed{options.seed}",
        block_tokens=options.block_tokens,
        read=partial(_requests, options),
    )


def _requests(options: SyntheticOptions) -> Iterator[TraceRequest]:
    source = Random(f"{options.seed}/synthetic")
    weights = [1 / rank for rank in range(1, options.openings + 1)]
    bounds = [sum(weights[: n + 1]) / sum(weights) for n in range(options.openings)]
    # New conversations come at the rate that keeps all turns at `per_s`.
    new_per_s = options.per_s * (1 - options.go_on)
    next_block = options.openings * options.opening_blocks
    new_at_s, sessions = 0.0, 0
    # Turns to come: when, conversation, opening, blocks before it.
    coming: list[tuple[float, int, int, list[int]]] = []
    random, expovariate = source.random, source.expovariate
    for _ in range(options.requests):
        if coming and coming[0][0] <= new_at_s:
            at_s, session, opening, path = heapq.heappop(coming)
        else:
            chance = random()
            opening = next(n for n, bound in enumerate(bounds) if chance < bound or bound >= 1.0)
            first = opening * options.opening_blocks
            path = list(range(first, first + options.opening_blocks))
            at_s, session = new_at_s, sessions
            sessions += 1
            new_at_s += expovariate(new_per_s)
        added = 1 + int(random() * options.turn_blocks)
        path = [*path, *range(next_block, next_block + added)]
        next_block += added
        yield TraceRequest(
            at_s=at_s,
            blocks=path,
            input_tokens=len(path) * options.block_tokens,
            output_tokens=1 + int(random() * options.block_tokens),
            session=str(session),
            template=f"opening-{opening}",
        )
        if random() < options.go_on and len(path) + options.turn_blocks <= options.most_blocks:
            pause_s = expovariate(1 / options.pause_s)
            heapq.heappush(coming, (at_s + pause_s, session, opening, path))
