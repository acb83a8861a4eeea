"""Replicas with a cache each, behind one router: what is re-used, how evenly, how long it waits.

Simulated time: a replica computes prompts one after the other. Everything is kept in sums, so that
a trace may be as long as it likes.
"""

import heapq
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import blake2b
from math import log
from types import MappingProxyType
from typing import Protocol
from zlib import crc32

import numpy as np

from app.routing import Candidate, LeastTtft, ReplicaLoad, RouteRequest
from bench.replay.curve import Sums
from bench.replay.run_lru import RunLru
from bench.replay.steps import Step

# As the default of `routing.opening_tokens`: what an opening is known by, in blocks.
OPENING_BLOCKS = 2
_OPENINGS_KEPT = 1 << 16
_DECODE_S = 0.02
# Waits are counted in bins that grow by 5 %, from 1 ms on.
_BIN = 1.05
_LEAST_S = 1e-3
_BINS = 360


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetOptions:
    """The replicas.

    Attributes:
        capacity: blocks of one replica's cache.
        prefill_tokens_per_s: of one replica.
    """

    replicas: int
    capacity: int
    page_tokens: int
    prefill_tokens_per_s: float = 10_000.0


@dataclass(slots=True)
class Replica:
    """One engine: its cache, and when it has computed what was sent."""

    cache: RunLru
    free_at_s: float = 0.0
    sent_tokens: int = 0
    ends: list[float] = field(default_factory=list)

    def in_flight(self, now_s: float) -> int:
        """Requests that haven't been answered to the end."""
        while self.ends and self.ends[0] <= now_s:
            heapq.heappop(self.ends)
        return len(self.ends)


class Router(Protocol):
    """Chooses a replica by its number."""

    def route(self, step: Step, now_s: float, fleet: Sequence[Replica]) -> int: ...


class RoundRobinRouter:
    """One after the other."""

    def __init__(self, options: FleetOptions) -> None:
        self._next = -1
        self._replicas = options.replicas

    def route(self, step: Step, now_s: float, fleet: Sequence[Replica]) -> int:
        self._next = (self._next + 1) % self._replicas
        return self._next


class SessionRouter:
    """A conversation stays where it began, wherever that is; openings aren't looked at."""

    def __init__(self, options: FleetOptions) -> None:
        self._replicas = options.replicas

    def route(self, step: Step, now_s: float, fleet: Sequence[Replica]) -> int:
        name = step.request.session
        if name is None:
            name = str(step.path[:OPENING_BLOCKS][-1]) if step.path else ""
        return crc32(name.encode()) % self._replicas


class OpeningRouter:
    """Equal openings go to equal replicas, by the gateway's own draw, without a bound on loads."""

    def __init__(self, options: FleetOptions) -> None:
        def place(opening: int) -> int:
            """Rendezvous: each replica draws, and the greatest draw wins."""
            draws = [
                blake2b(b"%d/%d" % (opening, number), digest_size=8).digest()
                for number in range(options.replicas)
            ]
            return draws.index(max(draws))

        self._place = lru_cache(_OPENINGS_KEPT)(place)

    def route(self, step: Step, now_s: float, fleet: Sequence[Replica]) -> int:
        return self._place(step.path[:OPENING_BLOCKS][-1] if step.path else 0)


class LeastTtftRouter:
    """The gateway's default policy, with true knowledge of caches and queues.

    What wrong knowledge costs is measured by `bench.routing`.
    """

    def __init__(self, options: FleetOptions) -> None:
        self._policy = LeastTtft()
        self._options = options

    def route(self, step: Step, now_s: float, fleet: Sequence[Replica]) -> int:
        options = self._options
        speed = options.prefill_tokens_per_s
        candidates = []
        for number, replica in enumerate(fleet):
            held = found_tokens(replica.cache.held(step.path), step, options.page_tokens)
            waiting = int(max(0.0, replica.free_at_s - now_s) * speed)
            load = ReplicaLoad(waiting_uncached_tokens=waiting, prefill_tokens_per_s=speed)
            candidates.append(
                Candidate(
                    name=str(number),
                    load=load,
                    held_tokens=held,
                    tier_tokens=held,
                    in_flight=replica.in_flight(now_s),
                )
            )
        opening = step.path[:OPENING_BLOCKS][-1] if step.path else 0
        request = RouteRequest(
            tokens=step.input_tokens, affinity=opening.to_bytes(8, "big"), at_s=now_s
        )
        return int(self._policy.choose(request, candidates).replica)


ROUTERS: Mapping[str, Callable[[FleetOptions], Router]] = MappingProxyType(
    {
        "least-ttft": LeastTtftRouter,
        "opening": OpeningRouter,
        "round-robin": RoundRobinRouter,
        "session": SessionRouter,
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetOutcome:
    """Figures of one pass.

    Attributes:
        imbalance: prompt tokens of the busiest replica over the mean, of the whole trace.
        busy: share of the time that replicas computed, on average.
        ttft_p50_s, ttft_p99_s: to 5 %.
    """

    router: str
    sums: Sums
    imbalance: float
    busy: float
    ttft_mean_s: float
    ttft_p50_s: float
    ttft_p99_s: float


def replay_fleet(
    steps: Iterable[Step], router: str, options: FleetOptions, *, skip: int = 0
) -> FleetOutcome:
    """Send a trace over replicas. Requests without a time come one a second.

    Args:
        skip: requests whose tokens aren't counted; loads and times are of all.
    """
    fleet = [Replica(RunLru(options.capacity)) for _ in range(options.replicas)]
    chooser = ROUTERS[router](options)
    waits = np.zeros(_BINS, dtype=np.int64)
    requests = asked = hits = 0
    waited_s = busy_s = now_s = 0.0
    for number, step in enumerate(steps):
        now_s = step.request.at_s if step.request.at_s is not None else float(number)
        replica = fleet[chooser.route(step, now_s, fleet)]
        found, _ = replica.cache.touch(step.path)
        held = min(sum(run.length for run in found), step.usable)
        hit = found_tokens(held, step, options.page_tokens)
        computing_s = (step.input_tokens - hit) / options.prefill_tokens_per_s
        replica.free_at_s = max(now_s, replica.free_at_s) + computing_s
        replica.sent_tokens += step.input_tokens
        if router == "least-ttft":
            ends_s = replica.free_at_s + _DECODE_S * step.request.output_tokens
            heapq.heappush(replica.ends, ends_s)
        if number >= skip:
            requests, asked, hits = requests + 1, asked + step.input_tokens, hits + hit
        ttft_s = replica.free_at_s - now_s
        waited_s, busy_s = waited_s + ttft_s, busy_s + computing_s
        waits[_wait_bin(ttft_s)] += 1
    counted = np.cumsum(waits)
    sent = [replica.sent_tokens for replica in fleet]
    return FleetOutcome(
        router=router,
        sums=Sums(requests=requests, input_tokens=asked, hit_tokens=hits),
        imbalance=max(sent) * len(sent) / sum(sent) if any(sent) else 1.0,
        busy=busy_s / (now_s * options.replicas) if now_s else 0.0,
        ttft_mean_s=waited_s / max(1, int(counted[-1])),
        ttft_p50_s=_quantile_s(counted, 0.5),
        ttft_p99_s=_quantile_s(counted, 0.99),
    )


def found_tokens(blocks: int, step: Step, page_tokens: int) -> int:
    """Tokens in the first blocks of a prompt; an engine always computes the last one."""
    return min(blocks * page_tokens, step.input_tokens - 1)


def _wait_bin(wait_s: float) -> int:
    if wait_s <= _LEAST_S:
        return 0
    return min(_BINS - 1, 1 + int(log(wait_s / _LEAST_S, _BIN)))


def _quantile_s(counted: "np.typing.NDArray[np.int64]", share: float) -> float:
    place = int(np.searchsorted(counted, share * counted[-1]))
    return float(_LEAST_S * _BIN**place)
