"""Fusion by shares of what each ranking could give."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from retrieval.fusion import FusionSettings, Ranking, fuse
from retrieval.index_views import Hits


def ranking(found: dict[int, float], *, weight: float = 1.0, most: float = 1.0) -> Ranking:
    places, scores = np.array([*found], np.int64), np.array([*found.values()], np.float32)
    return Ranking(hits=Hits(places, scores), weight=weight, most=most)


SHARES = st.dictionaries(st.integers(0, 30), st.floats(0, 1, width=32))


def test_the_most_in_both_is_the_whole_score() -> None:
    fused = fuse([ranking({7: 1.0, 1: 0.5}), ranking({7: 20.0, 2: 5.0}, most=20.0)])
    assert fused == [(7, pytest.approx(1.0)), (1, pytest.approx(0.25)), (2, pytest.approx(0.125))]


def test_one_word_of_many_counts_little() -> None:
    """First by a common word, but far from all that was asked for."""
    meaning = ranking({1: 0.6, 2: 0.5})
    assert fuse([meaning, ranking({2: 1.0}, most=20.0)])[0][0] == 1
    assert fuse([meaning, ranking({2: 19.0}, most=20.0)])[0][0] == 2


def test_nothing_found_is_nothing_fused() -> None:
    assert fuse([ranking({}), ranking({})]) == []


def test_a_ranking_without_weight_says_nothing() -> None:
    fused = fuse([ranking({1: 0.9, 2: 0.8}), ranking({2: 1.0, 3: 1.0}, weight=0.0)])
    assert fused == [(1, pytest.approx(0.9)), (2, pytest.approx(0.8))]


def test_a_search_that_had_nothing_to_look_for_takes_nothing_away() -> None:
    assert fuse([ranking({1: 0.9}), ranking({}, most=0.0)]) == [(1, pytest.approx(0.9))]


def test_a_cosine_below_0_is_no_share() -> None:
    assert fuse([ranking({1: -0.2, 2: 0.1})]) == [(2, pytest.approx(0.1)), (1, 0.0)]


@given(SHARES, SHARES, st.floats(1, 100))
def test_the_formula(first: dict[int, float], second: dict[int, float], most: float) -> None:
    scaled = {place: share * most for place, share in second.items()}
    fused = fuse([ranking(first), ranking(scaled, weight=2.0, most=most)])
    assert {place for place, _ in fused} == {*first, *second}
    assert [-score for _, score in fused] == sorted(-score for _, score in fused)
    for place, score in fused:
        expected = (first.get(place, 0.0) + 2 * second.get(place, 0.0)) / 3
        assert score == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize(
    "settings", [{"vector_weight": -1.0}, {"vector_weight": 0.0, "lexical_weight": 0.0}]
)
def test_settings_that_rank_nothing_are_refused(settings: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="must be"):
        FusionSettings(**settings)
