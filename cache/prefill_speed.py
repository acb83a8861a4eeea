"""How fast an engine computes prompts, measured from its own counters. Pure.

A batch of few tokens costs about as much as one of a few hundred, so what it says about speed is
its overhead. Hence only looks between which a real amount was computed count, and each counts with
its tokens: the speed is the median over tokens, which a slow moment can't pull far.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from cache.engine_loads import EngineLoads

# Below this many tokens between two looks, the fixed cost of a batch outweighs the computing.
LEAST_INTERVAL_TOKENS = 256
LEAST_TOKENS = 1024
WINDOW = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class PrefillSpeed:
    """Prompt tokens computed per second by one rank, and the evidence for it."""

    tokens_per_s: float
    tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PrefillTrack:
    """What was computed between looks at one engine; an engine that restarts begins anew.

    `intervals` are (tokens, seconds), the newest last.
    """

    last: EngineLoads | None = None
    intervals: tuple[tuple[int, float], ...] = ()

    def advance(self, loads: EngineLoads) -> "PrefillTrack":
        """The track up to a later look."""
        if self.last is None:
            return replace(self, last=loads)
        tokens = loads.uncached_tokens - self.last.uncached_tokens
        seconds = loads.busy_s - self.last.busy_s
        if tokens < 0 or seconds < 0:
            return replace(self, last=loads)
        if tokens < LEAST_INTERVAL_TOKENS or seconds <= 0:
            return replace(self, last=loads)
        return PrefillTrack(last=loads, intervals=(*self.intervals, (tokens, seconds))[-WINDOW:])

    def away(self) -> "PrefillTrack":
        """The track after a look that failed: the engine may come back with other counters."""
        return replace(self, last=None)

    @property
    def speed(self) -> PrefillSpeed | None:
        """The speed; None until enough was computed to tell."""
        tokens = sum(count for count, _ in self.intervals)
        if tokens < LEAST_TOKENS:
            return None
        return PrefillSpeed(tokens_per_s=_weighted_median(self.intervals), tokens=tokens)


def _weighted_median(intervals: Iterable[tuple[int, float]]) -> float:
    """Tokens per second at which half of all tokens were computed no faster."""
    rates = sorted((tokens / seconds, tokens) for tokens, seconds in intervals)
    half = sum(tokens for _, tokens in rates) / 2
    passed = 0
    for rate, tokens in rates:
        passed += tokens
        if passed >= half:
            return rate
    raise ValueError("a median needs an interval")
