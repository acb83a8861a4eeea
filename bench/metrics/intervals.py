"""Means and percentiles with intervals by bootstrap, seeded. Pure.

Values that come in bundles (the gaps within one answer) are drawn again by bundles: those of one
answer are alike, and single draws would promise too narrow an interval.
"""

from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

_Floats = npt.NDArray[np.float64]

PERCENTILES = (50, 90, 99)
_RESAMPLES = 1000
_FEWEST_RESAMPLES = 100
# Drawn values of all resamples together: what keeps a summary below a few seconds.
_MOST_DRAWS = 20_000_000
_AT_A_TIME = 1_000_000
_COVERAGE = 95.0


class Estimate(msgspec.Struct, frozen=True, kw_only=True):
    """A figure, and where it lies with 95 % confidence; None: too few values to tell."""

    value: float
    low: float | None = None
    high: float | None = None


class Distribution(msgspec.Struct, frozen=True, kw_only=True):
    """Of values in seconds.

    Attributes:
        n: values; for gaps within answers, all gaps.
        unknown: requests that have none.
    """

    n: int
    unknown: int
    mean: Estimate | None = None
    p50: Estimate | None = None
    p90: Estimate | None = None
    p99: Estimate | None = None


def distribution(
    bundles: Sequence[Sequence[float]], *, unknown: int = 0, seed: int = 0
) -> Distribution:
    """Of bundles of values, each with at least one.

    Percentiles are numpy's, linear between two values.
    """
    if not bundles:
        return Distribution(n=0, unknown=unknown)
    lengths = np.array([len(bundle) for bundle in bundles])
    values = np.concatenate([np.asarray(bundle, dtype=np.float64) for bundle in bundles])
    points = [float(values.mean()), *(float(p) for p in np.percentile(values, PERCENTILES))]
    bounds = _intervals(values, lengths, seed)
    mean, p50, p90, p99 = (
        Estimate(value=point)
        if bound is None
        else Estimate(value=point, low=bound[0], high=bound[1])
        for point, bound in zip(points, bounds, strict=True)
    )
    return Distribution(n=len(values), unknown=unknown, mean=mean, p50=p50, p90=p90, p99=p99)


def _intervals(
    values: _Floats, lengths: npt.NDArray[Any], seed: int
) -> list[tuple[float, float] | None]:
    if len(lengths) < 2:
        return [None] * (1 + len(PERCENTILES))
    chance = np.random.Generator(np.random.PCG64(seed))
    resamples = max(_FEWEST_RESAMPLES, min(_RESAMPLES, _MOST_DRAWS // len(values)))
    order = np.argsort(values, kind="stable")
    bundle_of = np.repeat(np.arange(len(lengths)), lengths)[order]
    even = np.full(len(lengths), 1 / len(lengths))
    # So many resamples at a time that they fit the memory of a small machine.
    at_a_time = max(1, _AT_A_TIME // len(values))
    drawn = []
    for start in range(0, resamples, at_a_time):
        counts = chance.multinomial(len(lengths), even, size=min(at_a_time, resamples - start))
        drawn.append(_weighted(values[order], counts[:, bundle_of]))
    tail = (100 - _COVERAGE) / 2
    low, high = np.percentile(np.concatenate(drawn), (tail, 100 - tail), axis=0)
    return [(float(a), float(b)) for a, b in zip(low, high, strict=True)]


def _weighted(values: _Floats, weights: npt.NDArray[Any]) -> _Floats:
    """Mean and percentiles of sorted values, each as often as its weight says: a row of each."""
    sums = np.cumsum(weights, axis=1)
    totals = sums[:, -1]
    columns = [weights @ values / totals]
    for percentile in PERCENTILES:
        rank = percentile / 100 * (totals - 1)
        columns.append(values[(sums <= rank[:, None]).sum(axis=1)])
    return np.stack(columns, axis=1)
