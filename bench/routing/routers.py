"""What decides in a simulation: Foreword's policies, or a model of sglang-router's."""

from collections.abc import Sequence
from typing import Protocol

from app.routing import Candidate, ReplicaLoad, RouteRequest, RoutingPolicy
from bench.routing.fleet import SimReplica, held_tokens
from bench.routing.traces import BLOCK_TOKENS, Arrival
from bench.routing.views import View

# Foreword asks every replica for its load so often while requests fly.
POLL_S = 0.25
# The first two blocks: as the default of `routing.opening_tokens`.
OPENING_BLOCKS = 2


class Router(Protocol):
    """Chooses a replica by its number."""

    def route(self, arrival: Arrival, fleet: Sequence[SimReplica]) -> int: ...


class ForewordRouter:
    """A routing policy with one gateway's knowledge: its view of the caches, and polled loads."""

    def __init__(self, policy: RoutingPolicy, view: View, num_replicas: int) -> None:
        self.view = view
        self._policy = policy
        self._polled_at_s = -1.0
        self._waiting = [0] * num_replicas
        self._unseen = [0] * num_replicas
        self._in_flight = [0] * num_replicas

    def route(self, arrival: Arrival, fleet: Sequence[SimReplica]) -> int:
        self._poll(arrival.at_s, fleet)
        held = [
            held_tokens(self.view.held(number, arrival.blocks, arrival.at_s), arrival)
            for number in range(len(fleet))
        ]
        candidates = [
            Candidate(
                name=str(number),
                load=ReplicaLoad(
                    waiting_uncached_tokens=self._waiting[number],
                    unseen_tokens=self._unseen[number],
                    running=self._in_flight[number],
                    prefill_tokens_per_s=replica.prefill_tokens_per_s,
                ),
                held_tokens=held[number],
                tier_tokens=held[number],
                in_flight=replica.in_flight(arrival.at_s),
            )
            for number, replica in enumerate(fleet)
        ]
        opening = arrival.blocks[:OPENING_BLOCKS][-1]
        request = RouteRequest(
            tokens=arrival.tokens, affinity=opening.to_bytes(8, "big"), at_s=arrival.at_s
        )
        chosen = int(self._policy.choose(request, candidates).replica)
        self.view.sent(chosen, arrival)
        self._unseen[chosen] += arrival.tokens - held[chosen]
        return chosen

    def _poll(self, now_s: float, fleet: Sequence[SimReplica]) -> None:
        """Since the last arrival nothing was sent, so a poll since then saw what is there now."""
        last_s = now_s - now_s % POLL_S
        if last_s <= self._polled_at_s:
            return
        self._polled_at_s = last_s
        self._waiting = [replica.waiting_tokens(last_s) for replica in fleet]
        self._in_flight = [replica.in_flight(last_s) for replica in fleet]
        self._unseen = [0] * len(fleet)


class CacheAware:
    """sglang-router's policy over HTTP, with blocks for its characters.

    Where requests in flight differ by more than `abs_threshold` and the factor `rel_threshold`: the
    fewest. Else, where more than `threshold` of the prompt is in the tree: the worker that was
    last sent the deepest matching node. Else the fewest in flight, the first of them.

    Source: sgl-project/sglang@053b63ff sgl-model-gateway/src/policies/cache_aware.rs; the defaults
    are those of `sglang-router` 0.3.2. Its tree is never cut here: its bound of 2**26 characters
    a worker is beyond these traces.
    """

    def __init__(
        self, *, threshold: float = 0.3, abs_threshold: int = 64, rel_threshold: float = 1.5
    ) -> None:
        self._threshold = threshold
        self._abs_threshold = abs_threshold
        self._rel_threshold = rel_threshold
        self._last_sent: dict[int, int] = {}

    def route(self, arrival: Arrival, fleet: Sequence[SimReplica]) -> int:
        loads = [replica.in_flight(arrival.at_s) for replica in fleet]
        least, most = min(loads), max(loads)
        chosen = loads.index(least)
        imbalanced = most - least > self._abs_threshold and most > least * self._rel_threshold
        if not imbalanced:
            matched = self._matched(arrival.blocks)
            if matched and min(matched * BLOCK_TOKENS, arrival.tokens) > (
                self._threshold * arrival.tokens
            ):
                chosen = self._last_sent[arrival.blocks[matched - 1]]
        self._last_sent.update(dict.fromkeys(arrival.blocks, chosen))
        return chosen

    def _matched(self, path: Sequence[int]) -> int:
        for depth, block in enumerate(path):
            if block not in self._last_sent:
                return depth
        return len(path)
