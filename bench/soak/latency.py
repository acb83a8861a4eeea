"""Percentiles of what was measured. Pure."""

import math
from collections.abc import Sequence


def percentile(values: Sequence[float], share: float) -> float | None:
    """The smallest value that at least `share` of all don't exceed; None of nothing.

    >>> percentile([3.0, 1.0, 2.0], 0.5)
    2.0
    """
    if not values:
        return None
    ordered = sorted(values)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


def milliseconds(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds * 1e3, 2)
