"""Histograms of seconds that can be added up: any order, any grouping, always the same sums. Pure.

Buckets are log-linear, like those of HdrHistogram: each power of two is cut into 32 of equal width.
A bucket's number is read off the bits of the float, so no rounding decides where a value goes. A
quantile is the middle of the bucket in which the value of that rank lies; it differs from that
value by no more than `RELATIVE_ERROR`, as long as that lies in `SHORTEST_S` … `LONGEST_S`. What is
shorter counts as 0, what is longer as `LONGEST_S`.
"""

import math
import struct
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

_SUB_BITS = 5
_SHIFT = 52 - _SUB_BITS  # what is left of a double's 52 bits of fraction
SHORTEST_S = 2.0**-20
LONGEST_S = 2.0**20
RELATIVE_ERROR = 2.0 ** -(_SUB_BITS + 1)

_DOUBLE, _LONG = struct.Struct("<d"), struct.Struct("<q")
_BASE: int = (_LONG.unpack(_DOUBLE.pack(SHORTEST_S))[0] >> _SHIFT) - 1  # bucket 0 is for "nothing"
_LAST: int = (_LONG.unpack(_DOUBLE.pack(LONGEST_S))[0] >> _SHIFT) - _BASE
NUM_BUCKETS = _LAST + 1


def bucket_of(seconds: float) -> int:
    """The bucket that a time falls into; `seconds` must be a number."""
    if seconds < SHORTEST_S:
        return 0
    bits: int = _LONG.unpack(_DOUBLE.pack(min(seconds, LONGEST_S)))[0]
    return (bits >> _SHIFT) - _BASE


def buckets_of(seconds: NDArray[np.float64]) -> NDArray[np.int64]:
    """`bucket_of` for each of `seconds`, shape (n,), none of them NaN."""
    bits = np.ascontiguousarray(np.minimum(seconds, LONGEST_S)).view(np.int64)
    return np.where(seconds < SHORTEST_S, 0, (bits >> _SHIFT) - _BASE)


def _bounds_s(bucket: int) -> tuple[float, float]:
    """Where a bucket begins and where the next one does, in seconds."""
    if bucket == 0:
        return 0.0, 0.0
    lower, upper = (
        _DOUBLE.unpack(_LONG.pack((number + _BASE) << _SHIFT))[0] for number in (bucket, bucket + 1)
    )
    return lower, upper


def _middle_s(bucket: int) -> float:
    lower, upper = _bounds_s(bucket)
    return (lower + upper) / 2


@dataclass(frozen=True, slots=True)
class Histogram:
    """Counts by bucket, only those above 0."""

    counts: Mapping[int, int] = field(default_factory=dict)

    @classmethod
    def of(cls, seconds: Iterable[float]) -> "Histogram":
        counts: dict[int, int] = {}
        for value in seconds:
            bucket = bucket_of(value)
            counts[bucket] = counts.get(bucket, 0) + 1
        return cls(counts)

    @property
    def requests(self) -> int:
        return sum(self.counts.values())

    def __add__(self, other: "Histogram") -> "Histogram":
        counts = dict(self.counts)
        for bucket, count in other.counts.items():
            counts[bucket] = counts.get(bucket, 0) + count
        return Histogram(counts)

    def quantile_s(self, percent: float) -> float | None:
        """The time that at least `percent` % don't exceed, by nearest rank; None without any."""
        return self.quantiles_s((percent,))[0]

    def quantiles_s(self, percents: Sequence[float]) -> list[float | None]:
        """`quantile_s` for several percentages at once."""
        buckets = sorted(self.counts)
        ranks = list(accumulate(self.counts[bucket] for bucket in buckets))
        if not ranks:
            return [None] * len(percents)
        wanted = (max(1, math.ceil(percent * ranks[-1] / 100)) for percent in percents)
        return [_middle_s(buckets[bisect_left(ranks, rank)]) for rank in wanted]

    def buckets(self) -> list[tuple[float, float, int]]:
        """(from, to, requests) in seconds, ascending; the buckets without requests are left out."""
        return [(*_bounds_s(bucket), self.counts[bucket]) for bucket in sorted(self.counts)]

    def encode(self) -> bytes:
        """Bucket and count in turn, each as a LEB128 number: 3 bytes for most buckets."""
        encoded = bytearray()
        for bucket in sorted(self.counts):
            for number in (bucket, self.counts[bucket]):
                while number > 127:
                    encoded.append(number & 127 | 128)
                    number >>= 7
                encoded.append(number)
        return bytes(encoded)
