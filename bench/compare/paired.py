"""Statistics of two arms that answered the same requests, some rounds each. Pure.

A request is compared with itself: of each id its values are averaged over the rounds, and B
against A is the id's effect. Times are compared as ratios, since a busy machine makes everything so
many times slower, and their geometric mean is the effect: a median would jump where some requests
gain much and others nothing, as hits and misses do. Tokens, which may be 0, are compared as
differences. Two intervals of 95 % say how sure the effect is:

- over requests, by bootstrap: sessions are drawn anew, with all their requests, since the turns of
  one session say much the same;
- over rounds, by Student's t: each round has an effect of its own, and what a machine does to a
  whole run shows only there. It needs two rounds.

What the rounds of one arm differ by among themselves, A against A, is the noise.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import log
from statistics import fmean, stdev
from typing import Literal

import numpy as np
import numpy.typing as npt

Scale = Literal["ratio", "difference"]
Floats = npt.NDArray[np.float64]
Rounds = Sequence[Mapping[str, float]]

RESAMPLES = 2_000
_MOST_DRAWS = 2_000_000
# Student's t at 97.5 %, by degrees of freedom; above them the normal distribution's.
_T: tuple[float, ...] = (
    12.706,
    4.303,
    3.182,
    2.776,
    2.571,
    2.447,
    2.365,
    2.306,
    2.262,
    2.228,
    2.201,
    2.179,
)
_T += (2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086)
_NORMAL = 1.960


@dataclass(frozen=True, slots=True)
class Interval:
    """Between these, with 95 %."""

    low: float
    high: float

    @property
    def excludes_zero(self) -> bool:
        return self.low > 0 or self.high < 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Paired:
    """B against A in one measure.

    Effects and their intervals are logarithms of B / A on the scale `ratio`, and B - A on the scale
    `difference`: 0 is no effect on both.

    Attributes:
        requests: those known in both; `missing` aren't, in one or the other.
        a, b: the median (of differences: the mean) over requests in each arm.
        difference: B less A, of the same requests, whatever the scale.
        over_requests: the bootstrap's interval of `effect`.
        by_round: each round's own effect.
        over_rounds: their interval; None for a single round.
        noise: the largest effect between two rounds of one arm; None for single rounds.
    """

    scale: Scale
    requests: int
    missing: int
    a: float
    b: float
    difference: float
    effect: float
    over_requests: Interval
    by_round: tuple[float, ...]
    over_rounds: Interval | None
    noise: float | None


def compare_paired(
    a: Rounds,
    b: Rounds,
    *,
    clusters: Mapping[str, str] | None = None,
    scale: Scale = "ratio",
    seed: int = 0,
) -> Paired | None:
    """B against A; None where no request is known in both.

    Args:
        a, b: for each round the values by request id; on the scale `ratio`, what isn't above 0 is
            not known. Where one arm has more rounds than the other, these count for its averages,
            but no round's effect is made of them.
        clusters: the session of each id; an id without one stands alone.
    """
    a, b = _scaled(a, scale), _scaled(b, scale)
    every = {id for values in (*a, *b) for id in values}
    ids = sorted(_known(a) & _known(b))
    if not ids:
        return None
    means_a, means_b = _means(a, ids), _means(b, ids)
    plain_a, plain_b = (
        (np.exp(means_a), np.exp(means_b)) if scale == "ratio" else (means_a, means_b)
    )
    by_round = tuple(
        found
        for one, other in zip(a, b, strict=False)
        if (found := _effect(one, other)) is not None
    )
    return Paired(
        scale=scale,
        requests=len(ids),
        missing=len(every) - len(ids),
        a=_middle(plain_a, scale),
        b=_middle(plain_b, scale),
        difference=_middle(plain_b - plain_a, scale),
        effect=float(np.mean(means_b - means_a)),
        over_requests=_bootstrap(means_b - means_a, ids, clusters or {}, seed),
        by_round=by_round,
        over_rounds=interval_of_rounds(by_round),
        noise=_noise(a, b),
    )


def interval_of_rounds(differences: Sequence[float]) -> Interval | None:
    """Student's interval of their mean; None for fewer than two."""
    if len(differences) < 2:
        return None
    freedom = len(differences) - 1
    quantile = _T[freedom - 1] if freedom <= len(_T) else _NORMAL
    half = quantile * stdev(differences) / len(differences) ** 0.5
    middle = fmean(differences)
    return Interval(middle - half, middle + half)


def _known(rounds: Rounds) -> set[str]:
    return {id for values in rounds for id in values}


def _means(rounds: Rounds, ids: Sequence[str]) -> Floats:
    return np.array([fmean(v[id] for v in rounds if id in v) for id in ids], dtype=np.float64)


def _scaled(rounds: Rounds, scale: Scale) -> Rounds:
    if scale == "difference":
        return rounds
    return [{id: log(value) for id, value in values.items() if value > 0} for values in rounds]


def _middle(values: Floats, scale: Scale) -> float:
    """What is told of one arm, and of B less A."""
    return float(np.median(values) if scale == "ratio" else values.mean())


def _effect(one: Mapping[str, float], other: Mapping[str, float]) -> float | None:
    both = one.keys() & other.keys()
    if not both:
        return None
    return fmean(other[id] - one[id] for id in sorted(both))


def _noise(a: Rounds, b: Rounds) -> float | None:
    found = [
        abs(effect)
        for rounds in (a, b)
        for number, one in enumerate(rounds)
        for other in rounds[number + 1 :]
        if (effect := _effect(one, other)) is not None
    ]
    return max(found, default=None)


def _bootstrap(
    effects: Floats, ids: Sequence[str], clusters: Mapping[str, str], seed: int
) -> Interval:
    """Of their mean. Sessions are drawn with all that is in them."""
    source = np.random.default_rng(seed)
    sums: dict[tuple[str, str], list[float]] = {}
    for id, effect in zip(ids, effects, strict=True):
        session = clusters.get(id)
        sums.setdefault(("id", id) if session is None else ("session", session), []).append(effect)
    totals = np.array([sum(group) for group in sums.values()])
    sizes = np.array([len(group) for group in sums.values()])
    found: list[Floats] = []
    # In blocks: all at once would take gigabytes for a long run.
    block = max(1, _MOST_DRAWS // len(totals))
    for start in range(0, RESAMPLES, block):
        rows = min(block, RESAMPLES - start)
        drawn = source.integers(len(totals), size=(rows, len(totals)))
        found.append(totals[drawn].sum(axis=1) / sizes[drawn].sum(axis=1))
    low, high = np.percentile(np.concatenate(found), [2.5, 97.5])
    return Interval(float(low), float(high))
