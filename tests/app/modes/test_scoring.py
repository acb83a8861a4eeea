"""Scores of answers, by SQuAD's rules."""

import pytest

from app.modes.scoring import exact_match, judged, normalized, token_f1


def test_case_articles_punctuation_and_spaces_do_not_count() -> None:
    assert normalized("  The  “Blue” Door! ".replace("“", '"').replace("”", '"')) == "blue door"
    assert exact_match("the blue door.", ["Blue door"]) == 1
    assert exact_match("a red door", ["Blue door"]) == 0


def test_f1_is_that_of_the_best_right_answer() -> None:
    """Two of three words are right, two of two are there: 2·(2/3)·1 / (2/3 + 1)."""
    assert token_f1("blue door here", ["blue door", "green"]) == pytest.approx(0.8)
    assert token_f1("nothing", ["blue door"]) == 0
    assert token_f1("", ["the"]) == 1
    assert token_f1("", ["blue"]) == 0


def test_repeated_words_count_as_often_as_they_are_right() -> None:
    """SQuAD counts words as a bag."""
    assert token_f1("no no no", ["no"]) == pytest.approx(0.5)


def test_no_right_answer_is_an_error() -> None:
    with pytest.raises(ValueError, match="empty"):
        exact_match("x", [])


@pytest.mark.parametrize(
    ("said", "score"),
    [("Yes.", 1.0), ("  no, since", 0.0), ("**Yes**", 1.0), ("maybe", None), ("", None)],
)
def test_a_judge_says_yes_or_no(said: str, score: float | None) -> None:
    assert judged(said) == score
