"""What loads cost, by the tier server's count and by what requests waited for."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.modes.loads import LoadLearner, TierCosts
from cache.load_cost import LoadCost


def load_cost(latency_s: float, tokens_per_s: float) -> LoadCost:
    return LoadCost(latency_s=latency_s, s_per_token=1 / tokens_per_s, loads=4, tokens=4000)


RAM, BELOW = load_cost(0.01, 100_000), load_cost(0.1, 10_000)
BOTH = TierCosts(ram=RAM, below=BELOW, ram_tokens=10_000)


def seconds(learner: LoadLearner, measured: TierCosts, *, tokens: int, newer: float) -> float:
    cost = learner.cost(measured, tokens=tokens, newer_tokens=newer)
    assert cost is not None
    return cost.seconds(tokens)


def test_without_a_measurement_there_is_no_cost() -> None:
    assert LoadLearner().cost(TierCosts(), tokens=1000, newer_tokens=0) is None


def test_what_ram_held_last_is_loaded_from_ram_and_what_is_older_from_below() -> None:
    learner = LoadLearner()
    assert seconds(learner, BOTH, tokens=1000, newer=0) == pytest.approx(RAM.seconds(1000))
    assert seconds(learner, BOTH, tokens=1000, newer=10_000) == pytest.approx(BELOW.seconds(1000))
    half = seconds(learner, BOTH, tokens=1000, newer=9_500)
    assert RAM.seconds(1000) < half < BELOW.seconds(1000)


def test_an_empty_ram_holds_nothing() -> None:
    empty = TierCosts(ram=RAM, below=BELOW, ram_tokens=0)
    got = seconds(LoadLearner(), empty, tokens=1000, newer=0)
    assert got == pytest.approx(BELOW.seconds(1000))


def test_one_place_alone_is_all_that_counts() -> None:
    only = TierCosts(below=BELOW)
    got = seconds(LoadLearner(), only, tokens=1000, newer=0)
    assert got == pytest.approx(BELOW.seconds(1000))


def test_requests_tell_by_which_factor_a_load_is_longer() -> None:
    learner = LoadLearner()
    for _ in range(8):
        learner.learn(2 * RAM.seconds(900), ram_tokens=900, below_tokens=0, measured=BOTH)
    assert seconds(learner, BOTH, tokens=1000, newer=0) == pytest.approx(2 * RAM.seconds(1000))
    assert seconds(learner, BOTH, tokens=1000, newer=99_999) == pytest.approx(BELOW.seconds(1000))


def test_a_load_from_both_places_tells_of_neither() -> None:
    learner = LoadLearner()
    learner.learn(9.0, ram_tokens=500, below_tokens=500, measured=BOTH)
    assert not learner.ram.values
    assert not learner.below.values


@given(waited=st.floats(-100, 1e6), tokens=st.integers(1, 10**6))
def test_no_load_makes_the_tiers_free_or_lost(waited: float, tokens: int) -> None:
    learner = LoadLearner()
    learner.learn(waited, ram_tokens=tokens, below_tokens=0, measured=BOTH)
    got = seconds(learner, BOTH, tokens=1000, newer=0)
    assert RAM.seconds(1000) / 4 <= got * 1.001
    assert got <= RAM.seconds(1000) * 8.001
