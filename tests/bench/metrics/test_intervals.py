"""Means, percentiles and their intervals against numpy and against what is known."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.metrics import distribution

TIMES = st.floats(0, 1e3, allow_nan=False)


@settings(max_examples=50)
@given(st.lists(st.lists(TIMES, min_size=1, max_size=5), min_size=1, max_size=20))
def test_points_are_numpys(bundles: list[list[float]]) -> None:
    values = np.concatenate([np.array(bundle) for bundle in bundles])
    made = distribution(bundles)
    assert made.n == len(values)
    assert made.mean is not None
    assert made.mean.value == pytest.approx(values.mean())
    for name, estimate in ((50, made.p50), (90, made.p90), (99, made.p99)):
        assert estimate is not None
        assert estimate.value == pytest.approx(np.percentile(values, name))


@settings(max_examples=30)
@given(st.lists(TIMES, min_size=2, max_size=30), st.integers(0, 9))
def test_intervals_lie_within_the_values_and_follow_from_the_seed(
    values: list[float], seed: int
) -> None:
    bundles = [[value] for value in values]
    made = distribution(bundles, seed=seed)
    assert made == distribution(bundles, seed=seed)
    for estimate in (made.mean, made.p50, made.p90, made.p99):
        assert estimate is not None
        assert estimate.low is not None
        assert estimate.high is not None
        slack = 1e-9 * max(values)
        assert min(values) - slack <= estimate.low <= estimate.high <= max(values) + slack


def test_an_interval_holds_the_truth_about_as_often_as_it_says() -> None:
    chance = np.random.default_rng(1)
    held = 0
    for _ in range(60):
        made = distribution([[value] for value in chance.exponential(1.0, 100)])
        assert made.mean is not None
        assert made.mean.low is not None
        assert made.mean.high is not None
        held += made.mean.low <= 1.0 <= made.mean.high
    assert 50 <= held <= 60


def test_values_of_one_bundle_count_as_one_draw() -> None:
    """A hundred equal gaps in each of four answers are four observations, not four hundred."""
    bundles = [[float(number)] * 100 for number in range(4)]
    apart = [[value] for bundle in bundles for value in bundle]
    together, single = distribution(bundles).mean, distribution(apart).mean
    assert together is not None
    assert single is not None
    assert together.high is not None
    assert single.high is not None
    assert together.high - together.value > 3 * (single.high - single.value)


def test_nothing_and_one_value_promise_nothing() -> None:
    nothing = distribution([], unknown=3)
    assert (nothing.n, nothing.unknown, nothing.mean) == (0, 3, None)
    one = distribution([[2.0]])
    assert one.p99 is not None
    assert (one.p99.value, one.p99.low) == (2.0, None)
