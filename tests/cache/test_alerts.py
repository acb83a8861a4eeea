"""Budgets and falls of versions."""

import pytest

from cache.alerts import (
    Budgets,
    BudgetStatus,
    TemplateRates,
    check_budgets,
    split_version,
    version_falls,
)
from cache.errors import ReportBudgetError
from cache.summary import HitRate


def rates(
    template: str, percent: int, requests: int = 100, ideal: float | None = None
) -> TemplateRates:
    hit = HitRate(cached_tokens=percent, prompt_tokens=100, requests=requests)
    return TemplateRates(template=template, requests=requests, hit=hit, ideal_rate=ideal)


def unknown(template: str) -> TemplateRates:
    hit = HitRate(cached_tokens=0, prompt_tokens=0, requests=0)
    return TemplateRates(template=template, requests=7, hit=hit)


@pytest.mark.parametrize(
    ("words", "default", "templates"),
    [
        (["0.6"], 0.6, {}),
        (["60%"], 0.6, {}),
        ([" 0.6 , docqa = 0.8 "], 0.6, {"docqa": 0.8}),
        (["docqa@2=80 %", "chat=0"], None, {"docqa@2": 0.8, "chat": 0.0}),
        (["a=b=1"], None, {"a=b": 1.0}),
        ([], None, {}),
    ],
)
def test_budgets_are_read_as_written(
    words: list[str], default: float | None, templates: dict[str, float]
) -> None:
    assert Budgets.parse(words) == Budgets(default=default, templates=templates)
    assert bool(Budgets.parse(words)) is bool(words)


@pytest.mark.parametrize(
    "word",
    ["", "x", "1.5", "60", "-0.1", "nan", "inf", "=0.5", "a=", "a=150%", "0.5,0.6", "a=0,a=1"],
)
def test_what_is_no_budget_is_refused_with_how_to_write_one(word: str) -> None:
    with pytest.raises(ReportBudgetError, match=r"docqa@2=0\.8"):
        Budgets.parse([word])


def test_the_most_particular_budget_holds() -> None:
    budgets = Budgets.parse(["0.1", "docqa=0.2", "docqa@2=0.3"])
    assert budgets.of("docqa@2") == 0.3
    assert budgets.of("docqa@1") == 0.2
    assert budgets.of("docqa") == 0.2
    assert budgets.of("chat@1") == 0.1
    assert Budgets.parse(["docqa=0.2"]).of("chat@1") is None


def test_each_template_is_checked_and_the_worst_come_first() -> None:
    found = [rates("b@1", 50), unknown("c@1"), rates("a@1", 60), rates("d@1", 10)]
    checks = check_budgets(found, Budgets.parse(["0.5", "gone=0.5", "d=0.1"]))
    assert [(check.template, check.status) for check in checks] == [
        ("c@1", BudgetStatus.UNKNOWN),
        ("gone", BudgetStatus.NO_REQUESTS),
        ("a@1", BudgetStatus.MET),
        ("b@1", BudgetStatus.MET),
        ("d@1", BudgetStatus.MET),
    ]
    (under,) = check_budgets([rates("a@1", 49)], Budgets.parse(["0.5"]))
    assert (under.status, under.rate, under.budget) == (BudgetStatus.UNDER, 0.49, 0.5)


def test_a_budget_by_name_is_one_for_all_its_versions() -> None:
    found = [rates("docqa@1", 90), rates("docqa@2", 10), rates("chat@1", 0)]
    checks = check_budgets(found, Budgets.parse(["docqa=0.5"]))
    assert [check.template for check in checks] == ["docqa@2", "docqa@1"]


def test_a_newer_version_that_reuses_less_is_told() -> None:
    (fall,) = version_falls([rates("docqa@9", 80), rates("docqa@10", 70), rates("docqa@2", 10)])
    assert (fall.before.template, fall.now.template) == ("docqa@9", "docqa@10")
    assert fall.fell_by == pytest.approx(0.1)


@pytest.mark.parametrize(
    "found",
    [
        [rates("docqa@1", 80), rates("docqa@2", 75)],
        [rates("docqa@1", 80), rates("docqa@2", 90)],
        [rates("docqa@1", 80)],
        [rates("docqa@1", 80), rates("chat@2", 10)],
        [rates("docqa@1", 80), rates("docqa@2", 10, requests=19)],
        [rates("docqa@1", 80, requests=19), rates("docqa@2", 10)],
        [rates("docqa@1", 80), unknown("docqa@2")],
        [rates("docqa", 80), rates("docqa@x", 10)],
    ],
    ids=[
        "within the margin", "rose", "only one", "another name", "few requests",
        "few requests before", "unknown", "no versions",
    ],
)  # fmt: skip
def test_what_is_no_sure_fall_is_not_told(found: list[TemplateRates]) -> None:
    assert version_falls(found) == ()


def test_a_version_with_few_requests_is_passed_over() -> None:
    found = [rates("a@1", 80), rates("a@2", 60), rates("a@3", 5, requests=3)]
    (fall,) = version_falls(found)
    assert fall.now.template == "a@2"


def test_the_worst_fall_comes_first_and_says_what_is_at_fault() -> None:
    falls = version_falls(
        [
            rates("a@1", 80, ideal=0.9),
            rates("a@2", 60, ideal=0.7),
            rates("b@1", 80, ideal=0.9),
            rates("b@2", 20, ideal=0.9),
            rates("c@1", 80),
            rates("c@2", 70, ideal=0.9),
        ]
    )
    assert [fall.now.template for fall in falls] == ["b@2", "a@2", "c@2"]
    assert [fall.ideal_fell_too for fall in falls] == [False, True, None]


@pytest.mark.parametrize(
    ("label", "parts"),
    [
        ("docqa@3", ("docqa", 3)),
        ("a@b@12", ("a@b", 12)),
        ("docqa", ("docqa", None)),
        ("docqa@", ("docqa@", None)),
        ("docqa@x", ("docqa@x", None)),
        ("docqa@²", ("docqa@²", None)),
        ("other", ("other", None)),
    ],
)
def test_a_label_is_a_name_and_a_version(label: str, parts: tuple[str, int | None]) -> None:
    assert split_version(label) == parts
