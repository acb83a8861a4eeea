"""Chance: the same from the same seed, and of the distribution that it names."""

import math
import statistics

import pytest

from bench.workloads import Chance
from bench.workloads.chance import Popularity


def test_one_more_draw_from_one_source_moves_no_other() -> None:
    first = Chance(1, "a")
    second = Chance(1, "a")
    second.random()
    assert Chance(1, "b").random() == Chance(1, "b").random()
    assert first.child("c").random() == second.child("c").random()


def test_a_shuffle_keeps_what_there_is() -> None:
    items = list(range(100))
    Chance(1, "order").shuffle(items)
    assert items != list(range(100))
    assert sorted(items) == list(range(100))


@pytest.mark.parametrize("shape", [0.3, 1.0, 4.0])
def test_gamma_has_mean_1_and_the_spread_of_its_shape(shape: float) -> None:
    chance = Chance(1, "gaps")
    drawn = [chance.gamma(shape) for _ in range(40_000)]
    assert statistics.fmean(drawn) == pytest.approx(1, rel=0.04)
    assert statistics.stdev(drawn) == pytest.approx(1 / math.sqrt(shape), rel=0.05)


def test_an_exponential_gap_has_mean_and_spread_1() -> None:
    chance = Chance(1, "gaps")
    drawn = [chance.exponential() for _ in range(40_000)]
    assert statistics.fmean(drawn) == pytest.approx(1, rel=0.03)
    assert statistics.stdev(drawn) == pytest.approx(1, rel=0.05)


def test_popularity_follows_zipf() -> None:
    chance, popularity = Chance(1, "picks"), Popularity(10, 1.0)
    picks = [popularity.pick(chance) for _ in range(40_000)]
    whole = sum(1 / rank for rank in range(1, 11))
    for index in (0, 1, 9):
        share = picks.count(index) / len(picks)
        assert share == pytest.approx(1 / (index + 1) / whole, rel=0.1)
