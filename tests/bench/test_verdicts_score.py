"""The score of labelled traffic: it finds every kind of wrong word."""

from dataclasses import replace
from typing import Any

import pytest

from bench.verdicts import Label, Score, Scored, table

ROW: dict[str, Any] = {
    "request_id": "chatcmpl-1",
    "verdict": "changed",
    "cause": "documents_order",
    "prompt_tokens": 200,
    "cached_tokens": 32,
    "ideal_tokens": 64,
    "predicted_tokens": 32,
    "new_tokens": 40,
    "lost": {"changed": 96, "rounding": 32},
    "cached_by_tier": None,
}
LABEL = Label(
    verdict="changed",
    reasons=frozenset({"changed", "rounding"}),
    causes=frozenset({"documents_order"}),
    tokens={"rounding": 32},
)
CASE = Scored(kind="rounding + changed", label=LABEL, row=ROW, block=ROW)


def score(**changes: Any) -> Score:
    """One request, which is a case and a clean one at once."""
    row = ROW | changes
    return Score(cases=[replace(CASE, row=row)], clean=[row], answers=[(ROW, row)])


def test_a_case_that_is_named_has_no_problem() -> None:
    assert CASE.problem is None
    named = score()
    assert named.mixed == [CASE]
    assert (named.singles, named.inexact, named.unequal) == ([], [], [])
    assert named.predictions == [(32, 32)]


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"verdict": "rounding"}, "rounding instead of changed"),
        ({"lost": {"changed": 128}}, "instead of ['changed', 'rounding']"),
        ({"lost": {"changed": 95, "rounding": 33}}, "and it was {'rounding': 32}"),
        ({"cause": "version"}, "cause version"),
    ],
)
def test_each_wrong_word_is_a_problem(changes: dict[str, Any], problem: str) -> None:
    wrong = score(**changes)
    assert problem in str(wrong.cases[0].problem)
    assert problem in table(wrong)


def test_a_loss_in_clean_traffic_is_a_false_alarm() -> None:
    assert len(score().false_alarms) == 1
    assert score(verdict="hit", lost={}).false_alarms == []


def test_unknown_is_wrong_both_ways() -> None:
    assert len(score(verdict="unknown").wrongly_unknown) == 1
    unknown = replace(CASE, label=replace(LABEL, verdict="unknown"))
    assert Score(cases=[unknown], clean=(), answers=()).wrongly_unknown == [unknown]


@pytest.mark.parametrize(
    "changes", [{"new_tokens": 41}, {"cached_tokens": None}, {"ideal_tokens": 16}]
)
def test_sums_have_to_add_up(changes: dict[str, Any]) -> None:
    assert len(score(**changes).inexact) == 1


def test_a_response_has_to_say_what_the_ledger_says() -> None:
    assert "cause documents_order and version" in score(cause="version").unequal[0]


def test_a_response_does_not_show_what_other_salts_had_left() -> None:
    lost = {"isolated": 96, "rounding": 32}
    row = ROW | {"lost": lost, "verdict": "isolated", "cause": "other_salt"}
    shown = row | {"verdict": "rounding", "cause": "chunk"}
    assert Score(cases=(), clean=(), answers=[(shown, row)]).unequal == []
    assert "shown as isolated" in Score(cases=(), clean=(), answers=[(row, row)]).unequal[0]


def test_an_opening_may_show_that_others_use_its_scaffold() -> None:
    row = ROW | {"lost": {"isolated": 96}, "verdict": "isolated", "cause": "other_salt"}
    opening = frozenset({row["request_id"]})
    told = Score(cases=(), clean=(), answers=[(row, row)], openings=opening)
    assert told.unequal == []
    assert "shown as isolated" in replace(told, openings=frozenset()).unequal[0]
