"""One pass of a trace over simulated replicas, and what came of it."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import fmean

from bench.routing.block_cache import BlockCache
from bench.routing.fleet import Served, SimReplica, held_tokens
from bench.routing.routers import ForewordRouter, Router
from bench.routing.traces import Arrival

WINDOW_S = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """Figures of one pass; times in seconds, hits as a share of prompt tokens.

    Attributes:
        imbalance: prompt tokens sent to the busiest replica over the mean, in the worst window of
            60 s; the first and the last aren't whole and don't count.
    """

    hit_rate: float
    imbalance: float
    ttft_mean_s: float
    ttft_p50_s: float
    ttft_p99_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Halves:
    """Figures of all requests, and of the second half: nothing was tuned on that one."""

    whole: Outcome
    second: Outcome


@dataclass(frozen=True, slots=True, kw_only=True)
class Restart:
    """A replica comes back with an empty cache; the gateways may notice or not."""

    at_s: float
    replica: int
    noticed: bool


@dataclass(slots=True)
class _Tally:
    num_replicas: int
    prompt_tokens: int = 0
    hit_tokens: int = 0
    ttfts_s: list[float] = field(default_factory=list)
    windows: dict[int, list[int]] = field(default_factory=dict)

    def count(self, arrival: Arrival, replica: int, served: Served) -> None:
        self.prompt_tokens += arrival.tokens
        self.hit_tokens += served.hit_tokens
        self.ttfts_s.append(served.first_token_at_s - arrival.at_s)
        window = self.windows.setdefault(int(arrival.at_s // WINDOW_S), [0] * self.num_replicas)
        window[replica] += arrival.tokens

    def outcome(self) -> Outcome:
        ttfts_s = sorted(self.ttfts_s)
        whole = [self.windows[number] for number in sorted(self.windows)[1:-1]]
        return Outcome(
            hit_rate=self.hit_tokens / self.prompt_tokens,
            imbalance=max((max(w) * len(w) / sum(w) for w in whole), default=1.0),
            ttft_mean_s=fmean(ttfts_s),
            ttft_p50_s=ttfts_s[len(ttfts_s) // 2],
            ttft_p99_s=ttfts_s[int(len(ttfts_s) * 0.99)],
        )


def replay(
    arrivals: Sequence[Arrival],
    fleet: Sequence[SimReplica],
    routers: Sequence[Router],
    *,
    restart: Restart | None = None,
) -> Halves:
    """Send a trace over a fleet; with several routers, each request goes to the next of them."""
    whole, second = _Tally(len(fleet)), _Tally(len(fleet))
    half = len(arrivals) // 2
    views = [router.view for router in routers if isinstance(router, ForewordRouter)]
    for number, arrival in enumerate(arrivals):
        if restart is not None and arrival.at_s >= restart.at_s:
            fleet[restart.replica].cache.clear()
            for view in views if restart.noticed else ():
                view.restarted(restart.replica)
            restart = None
        chosen = routers[number % len(routers)].route(arrival, fleet)
        served = fleet[chosen].serve(arrival)
        for view in views:
            view.served(chosen, arrival, served)
        for tally in (whole,) if number < half else (whole, second):
            tally.count(arrival, chosen, served)
    return Halves(whole=whole.outcome(), second=second.outcome())


def freely_moved(
    arrivals: Sequence[Arrival], num_replicas: int, *, capacity: float, prefill_tokens_per_s: float
) -> Halves:
    """What no router can expect to beat: all KV is everywhere at once, for nothing.

    One cache of `capacity` blocks for all, and each request goes where it waits least.
    """
    cache, free_at_s = BlockCache(capacity), [0.0] * num_replicas
    whole, second = _Tally(num_replicas), _Tally(num_replicas)
    for number, arrival in enumerate(arrivals):
        hit = held_tokens(cache.held(arrival.blocks), arrival)
        chosen = free_at_s.index(min(free_at_s))
        computed = arrival.tokens - hit
        free_at_s[chosen] = max(arrival.at_s, free_at_s[chosen]) + computed / prefill_tokens_per_s
        served = Served(
            hit_tokens=hit,
            computed_tokens=computed,
            first_token_at_s=free_at_s[chosen],
            gone=cache.use(arrival.blocks),
        )
        for tally in (whole,) if number < len(arrivals) // 2 else (whole, second):
            tally.count(arrival, chosen, served)
    return Halves(whole=whole.outcome(), second=second.outcome())


def pooled(arrivals: Sequence[Arrival], *, capacity: float) -> tuple[float, float]:
    """Hit rates of one cache that all replicas would share: of all requests, and the second half.

    `capacity` in blocks, all of theirs; infinity: what could be re-used at all.
    """
    cache = BlockCache(capacity)
    half = len(arrivals) // 2
    # Hit and prompt tokens before and from the middle.
    hits, tokens = [0, 0], [0, 0]
    for number, arrival in enumerate(arrivals):
        part = int(number >= half)
        hits[part] += held_tokens(cache.held(arrival.blocks), arrival)
        tokens[part] += arrival.tokens
        cache.use(arrival.blocks)
    return sum(hits) / sum(tokens), hits[1] / tokens[1]
