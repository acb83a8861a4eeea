"""How long two sequences are the same."""

from collections.abc import Sequence
from typing import Any


def shared_length(one: Sequence[Any], other: Sequence[Any]) -> int:
    """Length of the longest common prefix, found by halving: slices compare at memory speed."""
    low, high = 0, min(len(one), len(other))
    if one[:high] == other[:high]:
        return high
    while high - low > 1:
        middle = (low + high) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle
    return low
