"""A bucket never gives more than its limit allows, whatever is asked of it when."""

import math

from hypothesis import given
from hypothesis import strategies as st

from app.admission.buckets import Bucket

STEPS = st.lists(
    st.tuples(st.floats(0, 120), st.integers(1, 200), st.booleans()), min_size=1, max_size=60
)


@given(limit=st.integers(1, 100), steps=STEPS)
def test_in_any_stretch_of_time_no_more_is_given_than_a_full_bucket_and_what_flows_in(
    limit: int, steps: list[tuple[float, int, bool]]
) -> None:
    bucket, now, given_out = Bucket(limit=limit, at=0.0), 0.0, 0
    for pause, amount, _ in steps:
        now += pause
        if bucket.take(amount, now) is None:
            given_out += amount
        assert given_out <= limit + now * limit / 60 + 1e-6


@given(limit=st.integers(1, 100), steps=STEPS)
def test_what_was_refused_is_given_after_the_time_that_was_told(
    limit: int, steps: list[tuple[float, int, bool]]
) -> None:
    bucket, now = Bucket(limit=limit, at=0.0), 0.0
    for pause, amount, owes in steps:
        now += pause
        wait = bucket.take(amount, now)
        if wait is not None and math.isfinite(wait):
            now += wait + 1e-6
            assert bucket.take(amount, now) is None
        if wait == math.inf:
            assert amount > limit
        if owes:
            bucket.correct(amount, now)
            assert -limit <= bucket.level <= limit


def test_a_clock_that_is_set_back_neither_gives_nor_takes() -> None:
    bucket = Bucket(limit=60, at=100.0)
    assert bucket.take(60, 100.0) is None
    assert bucket.take(1, 50.0) is not None
    assert bucket.take(1, 50.5) is not None
    assert bucket.take(1, 51.1) is None


def test_what_was_taken_too_much_is_owed_and_what_was_not_needed_comes_back() -> None:
    bucket = Bucket(limit=60, at=0.0)
    bucket.take(10, 0.0)
    bucket.correct(60, 0.0)
    assert bucket.level == -10
    assert bucket.take(1, 0.0) == 11
    bucket.correct(-70, 0.0)
    assert bucket.remaining(0.0) == 60


def test_a_new_limit_keeps_what_was_used() -> None:
    bucket = Bucket(limit=60, at=0.0)
    bucket.take(50, 0.0)
    bucket.resize(100, 0.0)
    assert bucket.remaining(0.0) == 50
    bucket.resize(20, 0.0)
    assert bucket.remaining(0.0) == 0
