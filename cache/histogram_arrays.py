"""Many histograms at once, as arrays: decoded, added up and encoded in a fraction of the time."""

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cache.histograms import NUM_BUCKETS, Histogram

Numbers = NDArray[np.int64]

_SPARSE = 16  # with more empty places than this for each count, sorting is quicker than counting


class Counts(NamedTuple):
    """Counts of several histograms, shape (n,) each: whose, in which bucket, how many.

    Owners are whole numbers from 0 on. A bucket of an owner may be there more than once.
    """

    owners: Numbers
    buckets: Numbers
    counts: Numbers


def summed(several: Sequence[Counts]) -> Counts:
    """All of them added up: each bucket of an owner once, by owner and then bucket, none at 0."""
    owners, buckets, counts = (np.concatenate(column) for column in zip(*several, strict=True))
    places = owners * NUM_BUCKETS + buckets
    if not len(places):
        return Counts(places, places, places)
    if places.max() < _SPARSE * len(places):
        totals = np.bincount(places, weights=counts).astype(np.int64)
        places = np.flatnonzero(totals)
        totals = totals[places]
    else:
        places, where = np.unique(places, return_inverse=True)
        totals = np.bincount(where, weights=counts).astype(np.int64)
    owners, buckets = np.divmod(places, NUM_BUCKETS)
    return Counts(owners, buckets, totals)


def histograms_of(counts: Counts) -> dict[int, Histogram]:
    """The histograms of `summed` counts by their owners."""
    found: dict[int, dict[int, int]] = {}
    for owner, bucket, count in zip(*(column.tolist() for column in counts), strict=True):
        found.setdefault(owner, {})[bucket] = count
    return {owner: Histogram(of_owner) for owner, of_owner in found.items()}


def decoded(encoded: Sequence[bytes], owners: Sequence[int]) -> Counts:
    """The counts in what `Histogram.encode` made, each with its owner."""
    data = np.frombuffer(b"".join(encoded), np.uint8)
    ends_number = data < 128
    before = np.concatenate(([0], np.cumsum(ends_number)))
    bounds = np.concatenate(([0], np.cumsum([len(part) for part in encoded], dtype=np.int64)))
    numbers = _decoded_numbers(data, ends_number)
    whose = np.repeat(np.asarray(owners, np.int64), np.diff(before[bounds]) // 2)
    return Counts(whose, numbers[::2], numbers[1::2])


def encoded(counts: Counts) -> dict[int, bytes]:
    """`Histogram.encode` of each owner's `summed` counts."""
    numbers = np.column_stack((counts.buckets, counts.counts)).ravel()
    lengths = _lengths(numbers)
    ends = np.cumsum(lengths)
    data = _encoded_numbers(numbers, lengths, ends - lengths).tobytes()
    owners, first = np.unique(counts.owners, return_index=True)
    starts = [*(ends - lengths)[2 * first].tolist(), len(data)]
    return {
        owner: data[start:end]
        for owner, (start, end) in zip(owners.tolist(), pairwise(starts), strict=True)
    }


def _decoded_numbers(data: NDArray[np.uint8], ends_number: NDArray[np.bool_]) -> Numbers:
    if not len(data):
        return np.zeros(0, np.int64)
    starts = np.concatenate(([0], np.flatnonzero(ends_number)[:-1] + 1))
    digit = np.arange(len(data)) - np.repeat(starts, np.diff(np.append(starts, len(data))))
    return np.add.reduceat((data & 127).astype(np.int64) << (7 * digit), starts)


def _lengths(numbers: Numbers) -> Numbers:
    """Bytes that each number takes."""
    lengths = np.ones(len(numbers), np.int64)
    for digit in range(1, 9):
        lengths += numbers >= 1 << 7 * digit
    return lengths


def _encoded_numbers(numbers: Numbers, lengths: Numbers, starts: Numbers) -> NDArray[np.uint8]:
    data = np.zeros(int(lengths.sum()), np.uint8)
    for digit in range(int(lengths.max(initial=0))):
        has = lengths > digit
        goes_on = np.where(lengths[has] > digit + 1, 128, 0)
        data[starts[has] + digit] = numbers[has] >> 7 * digit & 127 | goes_on
    return data
