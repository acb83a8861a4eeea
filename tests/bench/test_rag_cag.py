"""The arithmetic and the texts of the benchmarks of RAG, CAG and `auto`."""

from typing import Any

import pytest

from bench.rag_cag.auto import always
from bench.rag_cag.score import (
    arm_scores,
    best_in_hindsight,
    computed_by_collection,
    is_good,
    regret,
    tenant_scores,
)
from bench.rag_cag.tables import auto_page, tenants_page, ttft_page
from bench.rag_cag.texts import Texts
from bench.rag_cag.workload import counts, events, mixed

ENVIRONMENT = {
    "processor": "a processor",
    "cores": 2,
    "load_average": [1.0],
    "python": "3.11",
    "commit": "abc",
}


def result(measured: object, **options: object) -> dict[str, Any]:
    told = {"engine": "none", "command": "none", "environment": ENVIRONMENT}
    return {**told, "options": options, "measured": measured}


def asked(arm: str, number: int, ttft_s: float, predicted_s: float | None) -> dict[str, Any]:
    return {
        "arm": arm,
        "round": number,
        "ttft_s": ttft_s,
        "predicted_s": predicted_s,
        "prompt_tokens": 1000,
        "computed_tokens": 100,
        "loaded_tokens": 50,
    }


def test_a_prediction_is_held_against_the_median() -> None:
    records = [asked("rag", n, s, 1.2) for n, s in enumerate((0.5, 1.0, 90.0))]
    (score,) = arm_scores(records)
    assert (score.ttft_s, score.lowest_s, score.highest_s) == (1.0, 0.5, 90.0)
    assert score.error == pytest.approx(0.2)


def test_a_request_without_a_prediction_is_a_fault() -> None:
    with pytest.raises(ValueError, match="nothing was predicted for rag"):
        arm_scores([asked("rag", 0, 1.0, None)])


def test_the_page_leaves_learning_out_and_marks_what_is_off() -> None:
    records = [asked("rag", -1, 50.0, 1.0), asked("rag", 0, 1.0, 1.2), asked("cag", 0, 1.0, 2.0)]
    page = ttft_page(result(records, rounds=1))
    assert "1.000 s (1.000 to 1.000) | 1.200 s | +20% |" in page
    assert "| 2.000 s | **+100%** |" in page


def visit(number: int, ttft_s: float, loaded: int) -> dict[str, Any]:
    return {
        "tenant": 0,
        "visit": number,
        "corpus_tokens": 1000,
        "pool_tokens": 1100,
        "loaded_tokens": loaded,
        "by_tier": {"ram": loaded, "ssd": None},
        "ttft_s": ttft_s,
    }


def test_later_visits_are_held_against_the_first() -> None:
    records = [visit(0, 9.0, 0), visit(1, 1.0, 960), visit(2, 3.0, 1010), visit(3, 1.5, 1000)]
    (score,) = tenant_scores(records)
    assert (score.computed_s, score.loaded_s) == (9.0, 1.5)
    assert score.least_share == pytest.approx(0.96)
    assert (score.ram_tokens, score.ssd_tokens) == (1000, 0)
    assert "| 96.0% | 1,000 | 0 | 1.500 s | 9.000 s | 6.0 |" in tenants_page(
        result(records, visits=3)
    )


def test_hindsight_takes_the_cheaper_mode_of_each_collection() -> None:
    spent = {"rag": {"a": 1.0, "b": 5.0, "c": 2.0}, "cag": {"a": 3.0, "b": 1.0}}
    best = best_in_hindsight(spent)
    assert best.modes == {"a": "rag", "b": "cag", "c": "rag"}
    assert best.total_s == 4.0


def test_regret_is_against_the_best_of_the_others() -> None:
    assert regret({"auto": 10.5, "rag": 20.0, "best": 10.0}) == pytest.approx(1.05)
    with pytest.raises(ValueError, match="nothing to hold it against"):
        regret({"auto": 1.0})


def test_what_does_not_fit_is_asked_by_retrieval_however_it_was_meant() -> None:
    fits = {"small": True, "huge": False}
    assert always("cag")(fits) == {"small": "cag", "huge": "rag"}
    assert always("auto")(fits) == {"small": "auto", "huge": "auto"}


def way(mode: str, computed: int, warmed: int = 0) -> dict[str, Any]:
    record = {"collection": "a", "mode": mode, "computed_tokens": computed}
    return {"records": [record, record], "warmed_tokens": warmed}


def test_the_sums_of_auto_have_its_warmings() -> None:
    ways = {"auto": way("cag", 10, 200), "rag": way("rag", 100), "cag": way("cag", 200)}
    assert computed_by_collection(ways["rag"]["records"]) == {"a": 200}
    page = auto_page(result({"sites": ["a"], "ways": ways, "tokens_per_s": 10.0}))
    assert "| auto | 2.0 | 20.0 | 22.0 |" in page
    assert "`auto` costs **1.100** times the best." in page
    assert "| a | 1 cag | 1 cag |" in page


def test_a_result_is_good_where_every_line_of_it_is() -> None:
    near, far = asked("rag", 0, 1.0, 1.25), asked("cag", 0, 1.0, 1.3)
    assert is_good("ttft", [near])
    assert not is_good("ttft", [near, far])
    assert is_good("tenants", [visit(0, 9.0, 0), visit(1, 1.0, 950)])
    assert not is_good("tenants", [visit(0, 9.0, 0), visit(1, 1.0, 949)])
    ways = {"auto": way("cag", 105), "rag": way("rag", 100), "cag": way("cag", 200)}
    assert is_good("auto", {"sites": ["a"], "ways": ways, "tokens_per_s": 10.0})


def test_documents_and_questions_are_the_same_for_the_same_seed() -> None:
    texts = Texts(seed="a", documents=3, characters=400)
    assert texts.all() == Texts(seed="a", documents=3, characters=400).all()
    assert {len(text) for text in texts.all().values()} == {400}
    assert texts.document(0) != texts.document(0, version=1)
    words = texts.question(7, about=2).split(": ", 1)[1].rstrip("?")
    assert words in " ".join(texts.document(2).split())


def test_every_change_replaces_the_version_before() -> None:
    sites = mixed(0.1)
    happened = events(sites, questions=400, seed=1)
    assert happened == events(sites, questions=400, seed=1)
    assert counts(happened)["ask"] == 400
    held = {(site.name, name) for site in sites for name in site.texts().all()}
    for event in happened:
        if event.kind == "change":
            held.remove((event.site, event.replaces))
            held.add((event.site, event.name))
    assert counts(happened)["change"] > 0
    assert counts(happened)["other"] > 0
