"""The quality gate."""

import math
import random
import tracemalloc

import pytest

from app.modes.gate import GateRules, GateVerdict, QualityScores, judge_switch, paired_bootstrap
from app.schemas import Mode

RULES = GateRules(margin=0.05, least_questions=20)


def scores(rag: list[float], cag: list[float], *, revision: int = 1) -> QualityScores:
    return QualityScores(
        metric="token_f1",
        revision=revision,
        model="m",
        scores={Mode.RAG: tuple(rag), Mode.CAG: tuple(cag)},
    )


def to_cag(found: QualityScores | None, *, revision: int = 1, model: str = "m") -> GateVerdict:
    return judge_switch(
        found, there=Mode.CAG, here=Mode.RAG, revision=revision, model=model, rules=RULES
    )


def test_without_questions_cost_alone_decides_and_it_is_said() -> None:
    verdict = to_cag(None)
    assert verdict.passes
    assert "cost only" in verdict.note


def test_equal_answers_pass_and_worse_ones_are_blocked() -> None:
    same = [0.5, 1.0] * 15
    assert to_cag(scores(same, same)).passes
    worse = to_cag(scores([1.0] * 30, [0.8] * 30))
    assert not worse.passes
    assert worse.difference == pytest.approx(-0.2)
    assert "-0.200" in worse.note


def test_better_answers_pass() -> None:
    assert to_cag(scores([0.2] * 30, [0.9] * 30)).passes


def test_a_difference_that_is_not_certain_is_blocked() -> None:
    """On average a little better, but with so wide a spread that it may be much worse."""
    rng = random.Random(1)
    rag = [float(rng.random() < 0.5) for _ in range(24)]
    cag = [float(rng.random() < 0.5) for _ in range(24)]
    verdict = to_cag(scores(rag, cag))
    assert not verdict.passes
    assert verdict.lower is not None
    assert verdict.lower < -0.05


def test_few_questions_show_nothing() -> None:
    verdict = to_cag(scores([1.0] * 5, [1.0] * 5))
    assert not verdict.passes
    assert "5 questions were asked" in verdict.note


def test_a_mode_that_was_not_evaluated_is_blocked() -> None:
    found = scores([1.0] * 30, [1.0] * 30)
    verdict = judge_switch(
        found, there=Mode.HYBRID, here=Mode.RAG, revision=1, model="m", rules=RULES
    )
    assert not verdict.passes
    assert "hybrid was not evaluated" in verdict.note


@pytest.mark.parametrize(
    ("revision", "model", "words"),
    [(2, "m", "documents changed"), (1, "other", "other serves now")],
)
def test_a_stale_evaluation_is_said(revision: int, model: str, words: str) -> None:
    verdict = to_cag(scores([1.0] * 30, [1.0] * 30), revision=revision, model=model)
    assert verdict.passes
    assert verdict.stale
    assert words in verdict.note


def test_the_interval_holds_what_it_says() -> None:
    """Of many samples of a true difference of 0, about one in twenty has its lower end above 0."""
    rng = random.Random(7)
    above = 0
    for _ in range(200):
        ours = tuple(rng.random() for _ in range(40))
        theirs = tuple(rng.random() for _ in range(40))
        above += paired_bootstrap(ours, theirs)[1] > 0
    assert 2 <= above <= 22


def test_only_the_same_questions_are_compared() -> None:
    with pytest.raises(ValueError, match="same questions"):
        paired_bootstrap((1.0,), (1.0, 0.0))


def test_a_very_large_evaluation_takes_no_memory_and_says_about_the_same() -> None:
    ours = tuple(float(n % 3 > 0) for n in range(500))
    theirs = tuple(float(n % 5 > 0) for n in range(500))
    mean, lower = paired_bootstrap(ours, theirs)
    tracemalloc.start()
    many_mean, many_lower = paired_bootstrap(ours * 200, theirs * 200)
    peak_bytes = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert many_mean == pytest.approx(mean)
    assert lower < many_lower < mean
    assert peak_bytes < 20 * 2**20
    _, twice = paired_bootstrap(ours * 2, theirs * 2)
    assert (mean - lower) / (mean - twice) == pytest.approx(math.sqrt(2), rel=0.1)
