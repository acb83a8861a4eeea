"""Rates and means that forget."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.modes.rates import DecayedRate, Recent, Share, numbers


def test_a_steady_rate_is_found() -> None:
    rate = DecayedRate(half_life_s=600)
    for at in range(0, 7200, 10):
        rate.count(float(at))
    assert rate.per_s(7200.0) == pytest.approx(0.1, rel=0.05)


def test_a_rate_falls_when_nothing_happens() -> None:
    rate = DecayedRate(half_life_s=600)
    for at in range(0, 3600, 10):
        rate.count(float(at))
    assert rate.per_s(3600.0 + 6000.0) < 0.01


def test_two_quick_events_are_no_high_rate() -> None:
    rate = DecayedRate()
    rate.count(100.0)
    rate.count(100.001)
    assert rate.per_s(100.001) < 0.1
    assert DecayedRate().per_s(5.0) == 0


@given(st.lists(st.floats(-1e9, 1e9), max_size=20))
def test_a_clock_that_goes_back_is_no_harm(times: list[float]) -> None:
    rate = DecayedRate()
    for at in times:
        rate.count(at)
    assert 0 <= rate.per_s(0.0) <= len(times) / 30 + 1e-9


def test_shares_begin_at_their_prior_and_follow_what_is_seen() -> None:
    share = Share(prior_yes=0.1, prior_no=0.9)
    assert share.value == pytest.approx(0.1)
    for number in range(100):
        share.count(number % 2 == 0)
    assert share.value == pytest.approx(0.5, abs=0.02)


def test_one_long_wait_pulls_nothing_and_many_do() -> None:
    recent = Recent()
    assert recent.value(3.0) == 3.0
    for value in [90.0, *[1.0] * 5]:
        recent.add(value)
    assert recent.value(3.0) == 1.0
    for _ in range(8):
        recent.add(90.0)
    assert recent.value(3.0) > 40
    for _ in range(20):
        recent.add(2.0)
    assert recent.values == [2.0] * 16


def test_only_finite_numbers_are_read() -> None:
    stored = {"a": 1, "b": "2", "c": float("nan"), "d": 2.5}
    assert numbers(stored, "a", "b", "c", "d", "e") == {"a": 1.0, "d": 2.5}
