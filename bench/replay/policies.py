"""The policies that a replay knows by name, and what each finds at each capacity."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Protocol

from bench.replay.belady import belady, future
from bench.replay.curve import Curve, Sums
from bench.replay.deadline_hints import DeadlineHints
from bench.replay.engine_like import replay_engine
from bench.replay.ideal_hints import IdealHintCache
from bench.replay.ranked import Gdsf, Lfu, RankedCache, Slru
from bench.replay.reuse import ReuseChunk
from bench.replay.steps import Step, Steps


class Cache(Protocol):
    """Holds what requests use; returns how many leading blocks were there."""

    def use(self, step: Step, now: int) -> int: ...


# By name: a cache of so many blocks of so many tokens.
CACHES: Mapping[str, Callable[[int, int], Cache]] = MappingProxyType(
    {
        "lfu": lambda capacity, _: RankedCache(capacity, Lfu()),
        "slru": lambda capacity, _: RankedCache(capacity, Slru()),
        "gdsf": lambda capacity, _: RankedCache(capacity, Gdsf()),
        "hints": lambda capacity, size: RankedCache(capacity, DeadlineHints(capacity, size)),
        "hints-ideal": IdealHintCache,
    }
)
LRU, BELADY, ENGINE = "lru", "belady", "sglang"
POLICIES = (LRU, *CACHES, BELADY, ENGINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """One policy at one capacity, in blocks."""

    policy: str
    capacity: int
    sums: Sums


def measure(
    steps: Steps,
    policies: Sequence[str],
    curve: Curve,
    chunks: Sequence[ReuseChunk],
) -> Iterator[Measured]:
    """Each policy at each of the curve's capacities. LRU and Belady need no more than `chunks`."""
    capacities, size, skip = curve.capacities, steps.page_tokens, curve.skip
    ahead = future(chunks) if BELADY in policies else None
    for policy in policies:
        for number, capacity in enumerate(capacities):
            match policy:
                case "lru":
                    sums = curve.sums[number]
                case "belady":
                    assert ahead is not None
                    sums = belady(ahead, capacity, page_tokens=size, skip=skip)
                case "sglang":
                    sums = replay_engine(steps, capacity, page_tokens=size, skip=skip)
                case _:
                    cache = CACHES[policy](capacity, size)
                    sums = replay_cache(steps, cache, page_tokens=size, skip=skip)
            yield Measured(policy=policy, capacity=capacity, sums=sums)


def replay_cache(steps: Steps, cache: Cache, *, page_tokens: int, skip: int = 0) -> Sums:
    """What a cache finds; the first `skip` requests only fill it."""
    requests = asked = hits = 0
    for now, step in enumerate(steps):
        found = min(cache.use(step, now), step.usable)
        if now >= skip:
            requests += 1
            asked += step.input_tokens
            hits += min(found * page_tokens, step.input_tokens - 1)
    return Sums(requests=requests, input_tokens=asked, hit_tokens=hits)
