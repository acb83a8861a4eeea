"""Simulated replicas: a prefix cache and a clock that computes prompts one after the other."""

import heapq
from collections.abc import Sequence
from dataclasses import dataclass, field

from bench.routing.block_cache import BlockCache
from bench.routing.traces import BLOCK_TOKENS, Arrival

# What decoding takes matters only to routers that count requests in flight.
DECODE_S = 0.02


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """What became of a request on a replica.

    Attributes:
        hit_tokens: of the prompt, that the replica held.
        first_token_at_s: when its prompt was computed; times are of the trace's clock.
        gone: blocks that were evicted for it.
    """

    hit_tokens: int
    computed_tokens: int
    first_token_at_s: float
    gone: Sequence[int]


@dataclass(slots=True)
class SimReplica:
    """One engine. Requests are computed first come, first served, so their order of arrival
    decides what each finds."""

    cache: BlockCache
    prefill_tokens_per_s: float
    free_at_s: float = 0.0
    _ends: list[float] = field(default_factory=list)

    def waiting_tokens(self, now_s: float) -> int:
        """Tokens still to compute, those of the request in work included."""
        return int(max(0.0, self.free_at_s - now_s) * self.prefill_tokens_per_s)

    def in_flight(self, now_s: float) -> int:
        """Requests that haven't been answered to the end."""
        while self._ends and self._ends[0] <= now_s:
            heapq.heappop(self._ends)
        return len(self._ends)

    def serve(self, arrival: Arrival) -> Served:
        """Queue a request and compute it when its turn comes."""
        hit = held_tokens(self.cache.held(arrival.blocks), arrival)
        computed = arrival.tokens - hit
        started_s = max(arrival.at_s, self.free_at_s)
        self.free_at_s = started_s + computed / self.prefill_tokens_per_s
        heapq.heappush(self._ends, self.free_at_s + DECODE_S * arrival.output_tokens)
        return Served(
            hit_tokens=hit,
            computed_tokens=computed,
            first_token_at_s=self.free_at_s,
            gone=self.cache.use(arrival.blocks),
        )


def held_tokens(blocks: int, arrival: Arrival) -> int:
    """Tokens in the first blocks of a prompt; an engine always computes the last one."""
    return min(blocks * BLOCK_TOKENS, arrival.tokens - 1)


def new_fleet(
    num_replicas: int, *, capacity: float, prefill_tokens_per_s: float
) -> list[SimReplica]:
    """Replicas with empty caches of `capacity` blocks each."""
    return [SimReplica(BlockCache(capacity), prefill_tokens_per_s) for _ in range(num_replicas)]
