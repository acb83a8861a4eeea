"""Reciprocal rank fusion."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from retrieval.fusion import FusionSettings, fuse
from retrieval.index_views import Hits


def ranking(*places: int) -> Hits:
    return Hits(np.array(places, np.int64), np.arange(len(places), 0, -1, dtype=np.float32))


def test_first_in_both_has_the_whole_score() -> None:
    fused = fuse([(ranking(7, 1), 1.0), (ranking(7, 2), 1.0)], rank_constant=60)
    assert fused[0] == (7, pytest.approx(1.0))
    assert [place for place, _ in fused] == [7, 1, 2]


def test_found_by_both_beats_found_by_one() -> None:
    fused = fuse([(ranking(1, 2, 3), 1.0), (ranking(9, 3), 1.0)], rank_constant=60)
    assert fused[0][0] == 3


def test_nothing_found_is_nothing_fused() -> None:
    assert fuse([(ranking(), 1.0), (ranking(), 1.0)], rank_constant=60) == []


def test_a_ranking_without_weight_says_nothing() -> None:
    fused = fuse([(ranking(1, 2), 1.0), (ranking(2, 1), 0.0)], rank_constant=60)
    assert [place for place, _ in fused] == [1, 2]


@given(
    st.lists(st.integers(0, 30), unique=True),
    st.lists(st.integers(0, 30), unique=True),
    st.floats(0, 200),
)
def test_the_formula(first: list[int], second: list[int], constant: float) -> None:
    fused = dict(fuse([(ranking(*first), 1.0), (ranking(*second), 2.0)], rank_constant=constant))
    assert set(fused) == {*first, *second}
    most = 3.0 / (constant + 1)
    for place, score in fused.items():
        expected = sum(
            weight / (constant + places.index(place) + 1)
            for places, weight in ((first, 1.0), (second, 2.0))
            if place in places
        )
        assert score == pytest.approx(expected / most)
        assert 0 < score <= 1 + 1e-9


@pytest.mark.parametrize(
    "settings", [{"rank_constant": -1.0}, {"vector_weight": 0.0, "lexical_weight": 0.0}]
)
def test_settings_that_rank_nothing_are_refused(settings: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="must be"):
        FusionSettings(**settings)
