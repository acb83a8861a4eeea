"""Hysteresis, and a warming that must have been earned."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.modes.prices import ModeCost, impossible
from app.modes.switch import Standing, SwitchRules, step
from app.schemas import Mode

RULES = SwitchRules(margin=0.1, dwell_s=60, patience=0.5)
ALL = (Mode.RAG, Mode.CAG, Mode.HYBRID)


def costs(rag: float, cag: float, *, warm: float = 0.0) -> dict[Mode, ModeCost]:
    return {
        Mode.RAG: ModeCost(prefill_s=rag, lasting_s=rag),
        Mode.CAG: ModeCost(prefill_s=cag + warm, lasting_s=cag, warm_s=warm),
        Mode.HYBRID: impossible("no core"),
    }


def asked(standing: Standing, given_costs: dict[Mode, ModeCost], *, at: float) -> Standing:
    return step(standing, given_costs, allowed=ALL, rules=RULES, at=at).standing


def test_a_warm_and_cheaper_mode_is_taken_at_once() -> None:
    assert asked(Standing(), costs(1.0, 0.2), at=0).mode is Mode.CAG


def test_a_warming_is_paid_when_half_of_it_was_missed() -> None:
    """Eight seconds of warming, of which the question's own answer pays 0.8: 3.6 must be missed."""
    standing = Standing()
    switched = None
    for number in range(1, 20):
        standing = asked(standing, costs(1.0, 0.2, warm=8.0), at=number)
        if standing.mode is Mode.CAG:
            switched = number
            break
    assert switched == 5


def test_within_the_margin_nothing_changes() -> None:
    standing = Standing()
    for number in range(100):
        found = step(standing, costs(1.0, 0.95), allowed=ALL, rules=RULES, at=number)
        standing = found.standing
        assert standing.mode is Mode.RAG
    assert "too little" in found.reason


def test_a_young_mode_is_kept_unless_its_prefix_is_gone() -> None:
    young = Standing(mode=Mode.CAG, since=100.0)
    dearer = costs(0.3, 0.5)
    kept = step(young, dearer, allowed=ALL, rules=RULES, at=130.0)
    assert kept.standing.mode is Mode.CAG
    assert "kept for 60 s" in kept.reason
    assert asked(young, dearer, at=160.0).mode is Mode.RAG
    assert asked(young, costs(0.3, 0.5, warm=9.0), at=101.0).mode is Mode.RAG


def test_a_mode_that_is_not_allowed_is_not_taken() -> None:
    found = step(Standing(), costs(1.0, 0.2), allowed={Mode.RAG}, rules=RULES, at=0)
    assert found.standing.mode is Mode.RAG
    assert "not allowed" in found.reason


def test_a_mode_that_can_not_answer_is_left_at_once() -> None:
    broken = costs(1.0, 0.2) | {Mode.CAG: impossible("the corpus is 9 tokens too long")}
    found = step(Standing(mode=Mode.CAG, since=0.0), broken, allowed=ALL, rules=RULES, at=1.0)
    assert found.standing.mode is Mode.RAG
    assert found.reason == "the corpus is 9 tokens too long"


def test_what_was_missed_is_forgotten_when_it_would_have_cost_more() -> None:
    standing = asked(Standing(), costs(1.0, 0.5, warm=50.0), at=0)
    assert standing.missed_s[Mode.CAG] == pytest.approx(0.5)
    for number in range(1, 5):
        standing = asked(standing, costs(1.0, 1.5, warm=50.0), at=number)
    assert standing.missed_s[Mode.CAG] == 0


@pytest.mark.parametrize("values", [{"margin": 1.0}, {"dwell_s": -1}, {"patience": -0.1}])
def test_rules_that_can_not_be_are_refused(values: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="margin is 0 to 1"):
        SwitchRules(**values)


@given(
    gain=st.floats(0.05, 2.0),
    warm=st.floats(0.1, 200.0),
    patience=st.floats(0.05, 1.0),
    questions=st.integers(1, 400),
)
def test_no_number_of_questions_costs_more_than_the_rule_allows(
    gain: float, warm: float, patience: float, questions: int
) -> None:
    """Whenever the questions end, and with patience 1: at most twice the best in hindsight.

    With less patience the price of a wrong warming is bounded by what was missed before it.
    """
    rag, cag = 0.1 + gain, 0.1
    rules = SwitchRules(margin=0.0, dwell_s=0.0, patience=patience)
    standing, spent, warmed = Standing(), 0.0, False
    for number in range(questions):
        now = costs(rag, cag, warm=0.0 if warmed else warm)
        standing = step(standing, now, allowed=ALL, rules=rules, at=number).standing
        spent += now[standing.mode].total_s
        warmed = warmed or standing.mode is Mode.CAG
    best = min(questions * rag, warm + questions * cag)
    assert spent <= best * (1 + 1 / patience) + rag + 1e-9
