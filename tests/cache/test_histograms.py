"""Histograms add up in any order, and their quantiles keep the error that they state."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cache.histogram_arrays import decoded, encoded, histograms_of, summed
from cache.histograms import (
    LONGEST_S,
    RELATIVE_ERROR,
    SHORTEST_S,
    Histogram,
    bucket_of,
    buckets_of,
)

seconds = (
    st.floats(SHORTEST_S, LONGEST_S, exclude_max=True)
    | st.floats(0.001, 30)
    | st.sampled_from([SHORTEST_S, 0.25, 0.5, 1.0, math.nextafter(1.0, 0)])
)
anything = seconds | st.floats(min_value=0, allow_nan=False) | st.floats(-1, 0)
times = st.lists(anything, max_size=30)


def nearest_rank(values: list[float], percent: int) -> float:
    return sorted(values)[max(1, -(-percent * len(values) // 100)) - 1]


@given(times, times, times)
def test_adding_is_associative_and_commutative_and_forgets_nothing(
    one: list[float], other: list[float], third: list[float]
) -> None:
    a, b, c = Histogram.of(one), Histogram.of(other), Histogram.of(third)
    assert a + b == b + a
    assert (a + b) + c == a + (b + c) == Histogram.of(one + other + third)
    assert a + Histogram() == a
    assert (a + b).requests == len(one) + len(other)


@given(st.lists(seconds, min_size=1, max_size=60), st.integers(0, 100))
def test_a_quantile_is_within_the_stated_error_of_the_exact_one(
    values: list[float], percent: int
) -> None:
    exact = nearest_rank(values, percent)
    found = Histogram.of(values).quantile_s(percent)
    assert found is not None
    assert abs(found - exact) <= RELATIVE_ERROR * exact


def test_the_stated_error_is_below_two_hundredths_and_is_reached() -> None:
    assert RELATIVE_ERROR < 0.016
    assert Histogram.of([1.0]).quantile_s(50) == 1.0 + RELATIVE_ERROR


@given(st.lists(st.tuples(st.integers(0, 5), times), min_size=1, max_size=12))
def test_encoded_histograms_come_back_added_up_by_owner(
    parts: list[tuple[int, list[float]]],
) -> None:
    expected: dict[int, Histogram] = {}
    for owner, values in parts:
        if values:
            expected[owner] = expected.get(owner, Histogram()) + Histogram.of(values)
    blobs = [Histogram.of(values).encode() for _, values in parts]
    counts = summed([decoded(blobs, [owner for owner, _ in parts])])
    assert histograms_of(counts) == expected
    assert encoded(counts) == {owner: found.encode() for owner, found in expected.items()}


@given(st.dictionaries(st.integers(0, 1200), st.integers(1, 2**40), max_size=9))
def test_large_counts_and_far_owners_add_up_too(counts: dict[int, int]) -> None:
    one = Histogram(counts)
    whose = [0, 7, 10**6, 7]
    found = summed([decoded([one.encode()] * 2, whose[:2]), decoded([one.encode()] * 2, whose[2:])])
    expected = {0: one, 7: one + one, 10**6: one} if counts else {}
    assert histograms_of(found) == expected
    assert encoded(found) == {owner: histogram.encode() for owner, histogram in expected.items()}


@given(st.lists(anything, min_size=1, max_size=30))
def test_many_values_fall_into_the_buckets_of_each_alone(values: list[float]) -> None:
    assert buckets_of(np.array(values)).tolist() == [bucket_of(value) for value in values]


@given(seconds, seconds)
def test_a_longer_time_is_never_in_an_earlier_bucket(one: float, other: float) -> None:
    assert (bucket_of(one) <= bucket_of(other)) or one > other


@pytest.mark.parametrize(("value", "told"), [(0.0, 0.0), (-1.0, 0.0), (SHORTEST_S / 2, 0.0)])
def test_what_is_shorter_than_the_shortest_counts_as_nothing(value: float, told: float) -> None:
    assert Histogram.of([value]).quantile_s(50) == told


def test_what_is_longer_than_the_longest_counts_as_that() -> None:
    assert Histogram.of([math.inf]) == Histogram.of([LONGEST_S])


def test_without_requests_there_is_no_quantile() -> None:
    assert Histogram().quantile_s(50) is None
    assert Histogram().encode() == b""


def test_buckets_hold_the_values_between_their_bounds() -> None:
    values = [0.1, 0.1, 0.5, 7.0]
    buckets = Histogram.of(values).buckets()
    assert [count for *_, count in buckets] == [2, 1, 1]
    assert all(low <= v < high for v, (low, high, _) in zip([0.1, 0.5, 7.0], buckets, strict=True))


def test_a_thousand_requests_take_about_three_bytes_a_bucket() -> None:
    histogram = Histogram.of([0.05 + 0.001 * i for i in range(1000)])
    assert len(histogram.encode()) <= 3 * len(histogram.counts)
