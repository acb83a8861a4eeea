"""What a request costs in money: the worked example, and what follows from it."""

from typing import Any

import pytest

from app.modes.money import Prices, Request, money_json, money_plan, money_text
from app.schemas import Mode

PRICES = Prices(input=1.25, cached_input=0.125)
# 500 tokens of system prompt before 99,500 of documents are the 100,000 that are cached.
EXAMPLE = Request(
    corpus_tokens=99_500, system_tokens=500, passages=10, passage_tokens=500, question_tokens=500
)


def test_the_worked_example() -> None:
    """10 x 500 + 500 = 5,500 uncached behind 500 cached, against 100,000 cached and 500 fresh."""
    bills = money_plan(EXAMPLE, prices=PRICES).bills
    rag, cag = bills[Mode.RAG], bills[Mode.CAG]
    assert (rag.cached_tokens, rag.uncached_tokens) == (500, 5500)
    assert (cag.cached_tokens, cag.uncached_tokens) == (100_000, 500)
    # 5,500 x 1.25 = 6,875 and 500 x 0.125 = 62.5; 100,000 x 0.125 = 12,500 and 500 x 1.25 = 625.
    assert rag.dollars == pytest.approx(0.0069375)
    assert cag.dollars == pytest.approx(0.013125)
    assert f"{rag.dollars:.3f}" == "0.007"
    assert f"{cag.dollars:.3f}" == "0.013"


def test_below_the_break_even_corpus_the_whole_is_cheaper() -> None:
    even = money_plan(EXAMPLE, prices=PRICES).even_corpus_tokens
    assert even == 50_000
    for corpus, cheaper in ((49_000, Mode.CAG), (51_000, Mode.RAG)):
        request = Request(corpus_tokens=corpus)
        bills = money_plan(request, prices=PRICES).bills
        assert min(bills, key=lambda mode: bills[mode].dollars or 0) is cheaper


def test_on_ones_own_gpus_only_what_is_computed_costs() -> None:
    plan = money_plan(EXAMPLE, prefill_tokens_per_s=5000, gpu_hour=3.6)
    assert plan.bills[Mode.RAG].gpu_s == pytest.approx(1.1)
    assert plan.bills[Mode.CAG].gpu_s == pytest.approx(0.1)
    assert plan.bills[Mode.CAG].gpu_dollars == pytest.approx(0.0001)
    assert plan.even_requests == pytest.approx(20.0)


def test_output_costs_the_same_in_each_mode() -> None:
    prices = Prices(input=1.25, cached_input=0.125, output=10)
    with_answer = money_plan(Request(corpus_tokens=1, output_tokens=100), prices=prices).bills
    without = money_plan(Request(corpus_tokens=1), prices=prices).bills
    for mode in (Mode.RAG, Mode.CAG):
        more = (with_answer[mode].dollars or 0) - (without[mode].dollars or 0)
        assert more == pytest.approx(0.001)


def test_free_cached_tokens_have_no_break_even() -> None:
    plan = money_plan(EXAMPLE, prices=Prices(input=1, cached_input=0))
    body: dict[str, Any] = money_json(plan)
    assert body["break_even_corpus_tokens"] is None
    assert "cost nothing" in money_text(plan)


def test_text_shows_the_arithmetic() -> None:
    text = money_text(money_plan(EXAMPLE, prices=PRICES, prefill_tokens_per_s=8000, gpu_hour=2))
    assert "$0.006938  500 cached x $0.125/M + 5,500 x $1.25/M" in text
    assert "$0.013125  100,000 cached x $0.125/M + 500 x $1.25/M" in text
    assert "corpus of 50,000 tokens" in text
    assert "20.0 requests" in text
