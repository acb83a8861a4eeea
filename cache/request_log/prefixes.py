"""How long two sequences are the same."""

from array import array
from typing import TypeVar

S = TypeVar("S", str, bytes, "array[int]")


def shared_length(one: S, other: S) -> int:
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
