"""Is it flat? One rule, stated beside every result. Pure."""

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations

from bench.soak.samples import Sample

MOST_GROWTH = 0.01
FEWEST_SAMPLES = 8
FILLING = 0.05
RULE = (
    "Flat: over the last half of the requests of the gateway's longest life, the resident memory "
    "grows by less than 1 % (Theil-Sen slope over the samples, times the requests), no more file "
    "descriptors or threads are open at the end than at that half's beginning, and no request is "
    "in flight whenever nothing was asked. Not judged with fewer than 8 samples in that half, or "
    "where the prefix index grew by more than 5 % in it: what is still filling up must grow."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """What the rule says.

    Attributes:
        flat: None: not judged, for the reason in `problems`.
        growth: of resident memory over the last half, as a share of its median there.
        bytes_per_request: the slope there.
        slope_range: the 5th and 95th percentile of slopes between two samples: a rough measure of
            how sure the slope is.
        late_bytes_per_request: the slope over the last quarter: less than over the half where
            what grew was only filling up.
    """

    flat: bool | None
    growth: float | None
    bytes_per_request: float | None
    slope_range: tuple[float, float] | None
    late_bytes_per_request: float | None
    problems: tuple[str, ...]

    def after_million(self) -> float | None:
        """MiB that a million requests would add at this slope."""
        slope = self.bytes_per_request
        return None if slope is None else slope * 1e6 / 2**20


def judge(samples: Sequence[Sample]) -> Judgement:
    """Judge one soak; see RULE."""
    life = longest_life(samples)
    half = [s for s in life if s.requests >= life[-1].requests / 2] if life else []
    if len(half) < FEWEST_SAMPLES:
        found = f"{len(half)} samples in the last half; {FEWEST_SAMPLES} are needed"
        return _judged(None, (found,))
    slope, low, high = _slope(half)
    late, _, _ = _slope(half[len(half) // 2 :])
    asked = half[-1].requests - half[0].requests
    growth = slope * asked / (statistics.median(s.rss_kb for s in half) * 1024)
    problems = tuple(_problems(half, growth))
    first, last = half[0].index_pages, half[-1].index_pages
    filling = last > first * (1 + FILLING)
    if filling:
        filled = f"the prefix index still went from {first:,.0f} to {last:,.0f} pages"
        problems = (filled, *problems)
    flat = None if filling else not problems
    return Judgement(
        flat=flat,
        growth=growth,
        bytes_per_request=slope,
        slope_range=(low, high),
        late_bytes_per_request=late,
        problems=problems,
    )


def longest_life(samples: Sequence[Sample]) -> list[Sample]:
    """The samples of that start of the gateway which answered most."""
    lives: dict[int, list[Sample]] = {}
    for sample in samples:
        lives.setdefault(sample.life, []).append(sample)
    return max(lives.values(), key=lambda life: life[-1].requests, default=[])


def theil_sen(xs: Sequence[float], ys: Sequence[float]) -> tuple[float, float, float]:
    """Median of all slopes between two points, with their 5th and 95th percentile.

    One page more or less of the allocator's moves a least-squares line; it hardly moves this.
    """
    points = list(zip(xs, ys, strict=True))
    slopes = sorted(
        (y2 - y1) / (x2 - x1) for (x1, y1), (x2, y2) in combinations(points, 2) if x1 != x2
    )
    edge = len(slopes) // 20
    return statistics.median(slopes), slopes[edge], slopes[-1 - edge]


def _slope(samples: Sequence[Sample]) -> tuple[float, float, float]:
    """Bytes a request."""
    return theil_sen([s.requests for s in samples], [s.rss_kb * 1024.0 for s in samples])


_COUNTS: dict[str, Callable[[Sample], float]] = {
    "file descriptors": lambda sample: sample.descriptors,
    "threads": lambda sample: sample.threads,
}


def _problems(half: Sequence[Sample], growth: float) -> list[str]:
    problems = []
    if growth >= MOST_GROWTH:
        problems.append(f"resident memory grew by {growth:.1%}")
    third = max(1, len(half) // 3)
    for name, count in _COUNTS.items():
        before, after = max(map(count, half[:third])), min(map(count, half[-third:]))
        if after > before:
            problems.append(f"{name} went from {before:.0f} to {after:.0f}")
    if any(sample.in_flight for sample in half):
        problems.append("requests were counted as in flight while nothing was asked")
    return problems


def _judged(flat: bool | None, problems: tuple[str, ...]) -> Judgement:
    return Judgement(
        flat=flat,
        growth=None,
        bytes_per_request=None,
        slope_range=None,
        late_bytes_per_request=None,
        problems=problems,
    )
