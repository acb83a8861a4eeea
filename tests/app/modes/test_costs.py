"""What a query costs in each mode, and what moves those costs."""

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.modes.costs import PrefixFacts, RagFacts, Situation, Traffic, price
from app.modes.ttft import TtftModel
from app.schemas import Mode
from cache.load_cost import LoadCost

LINEAR = TtftModel(fixed_s=0.1, per_token_s=0.001, per_pair_s=0.0, per_cached_s=0.0)
TIER = LoadCost(latency_s=0.05, s_per_token=0.0001, loads=9, tokens=9000)


def situation(**changes: object) -> Situation:
    plain = Situation(
        window_tokens=32_000,
        pool_tokens=50_000,
        question_tokens=40,
        ttft=LINEAR,
        rag=RagFacts(found_tokens=1000, cached_share=0.2, retrieval_s=0.03, scaffold_tokens=60),
        corpus=PrefixFacts(tokens=10_000, resident_tokens=10_000),
    )
    return replace(plain, **changes)  # type: ignore[arg-type]


def test_retrieval_computes_the_question_and_what_of_the_passages_is_not_cached() -> None:
    cost = price(situation())[Mode.RAG]
    assert cost.prefill_tokens == 40 + 800
    assert cost.ttft_s == pytest.approx(0.1 + 0.84 + 0.03)
    assert cost.lasting_s == pytest.approx(cost.total_s)


def test_a_resident_corpus_costs_its_question() -> None:
    cost = price(situation())[Mode.CAG]
    assert cost.prefill_tokens == 40
    assert cost.ttft_s == pytest.approx(0.14)
    assert cost.warm_s == 0
    assert cost.pool_tokens == 10_000


def test_a_cold_corpus_costs_its_warming_once() -> None:
    cost = price(situation(corpus=PrefixFacts(tokens=10_000)))[Mode.CAG]
    assert cost.prefill_tokens == 10_040
    assert cost.warm_s == pytest.approx(10.0)
    assert cost.lasting_s == pytest.approx(0.14)


def test_a_tiered_corpus_is_loaded_where_loads_were_measured() -> None:
    corpus = PrefixFacts(tokens=10_000, resident_tokens=4000, tiered_tokens=6000)
    loaded = price(situation(corpus=corpus, tier=TIER))[Mode.CAG]
    assert loaded.load_s == pytest.approx(0.05 + 0.6)
    assert loaded.prefill_tokens == 40
    unmeasured = price(situation(corpus=corpus))[Mode.CAG]
    assert unmeasured.load_s == 0
    assert unmeasured.prefill_tokens == 6040


def test_attention_over_a_long_corpus_is_priced() -> None:
    quadratic = replace(LINEAR, per_pair_s=1e-6)
    cost = price(situation(ttft=quadratic))[Mode.CAG]
    assert cost.prefill_s == pytest.approx(0.1 + 0.04 + 1e-6 * 40 * (10_000 + 20))


def test_changes_make_the_corpus_anew() -> None:
    traffic = Traffic(query_per_s=1.0, stale_share=0.25, changed_share=0.5)
    cost = price(situation(traffic=traffic))[Mode.CAG]
    assert cost.lasting_s == pytest.approx(0.14 + 0.25 * 5.0)


def test_a_corpus_that_is_asked_rarely_is_evicted_between_questions() -> None:
    traffic = Traffic(query_per_s=0.001, insert_tokens_per_s=400)
    stay_s = 40_000 / 400
    gone = math.exp(-0.001 * stay_s)
    cost = price(situation(traffic=traffic))[Mode.CAG]
    assert cost.lasting_s == pytest.approx(0.14 + gone * 10.0, rel=1e-6)
    tiered = price(situation(traffic=traffic, tier=TIER))[Mode.CAG]
    assert tiered.lasting_s == pytest.approx(0.14 + gone * 1.05, rel=1e-6)


def test_holding_a_corpus_costs_others_their_reuse() -> None:
    quiet = Traffic(query_per_s=0.5, insert_tokens_per_s=100)
    busy = replace(quiet, lost_tokens_per_s=50)
    assert price(situation(traffic=quiet))[Mode.CAG].eviction_s == 0
    held = price(situation(traffic=busy))[Mode.CAG].eviction_s
    # Two seconds from question to question, a fifth of the pool; and the question pushes out too.
    assert held == pytest.approx(2 * 50 * 0.2 * 0.001 + 40 * 0.5 * 0.001)
    assert price(situation(traffic=busy))[Mode.RAG].eviction_s == pytest.approx(840 * 0.5 * 0.001)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"window_tokens": 10_039}, "10,040 tokens, and the window holds 10,039"),
        ({"pool_tokens": 9000}, "the KV pool holds 9,000"),
        ({"corpus": None}, "still being counted"),
    ],
)
def test_what_does_not_fit_is_refused_with_the_numbers(
    changes: dict[str, object], words: str
) -> None:
    cost = price(situation(**changes))[Mode.CAG]
    assert not cost.possible
    assert words in (cost.problem or "")


def test_passages_too_can_be_too_long() -> None:
    cost = price(situation(window_tokens=1000))[Mode.RAG]
    assert "the passages and the question" in (cost.problem or "")


def test_a_core_saves_the_passages_that_it_holds() -> None:
    core = PrefixFacts(tokens=3000, resident_tokens=3000, covers=0.6)
    cost = price(situation(core=core))[Mode.HYBRID]
    assert cost.prefill_tokens == pytest.approx(40 + 400)
    assert cost.retrieval_s == 0.03
    assert not price(situation())[Mode.HYBRID].possible


@given(
    tokens=st.integers(64, 30_000),
    resident=st.floats(0, 1),
    tiered=st.floats(0, 1),
    question=st.integers(1, 500),
    stale=st.floats(0, 1),
    query=st.floats(0, 10),
    inserts=st.floats(0, 5000),
    lost=st.floats(0, 5000),
    has_tier=st.booleans(),
)
def test_every_figure_is_finite_and_none_negative(
    tokens: int,
    resident: float,
    tiered: float,
    question: int,
    stale: float,
    query: float,
    inserts: float,
    lost: float,
    has_tier: bool,
) -> None:
    held = int(tokens * resident)
    corpus = PrefixFacts(
        tokens=tokens, resident_tokens=held, tiered_tokens=int((tokens - held) * tiered)
    )
    traffic = Traffic(
        query_per_s=query, stale_share=stale, insert_tokens_per_s=inserts, lost_tokens_per_s=lost
    )
    costs = price(
        situation(
            corpus=corpus,
            question_tokens=question,
            traffic=traffic,
            tier=TIER if has_tier else None,
        )
    )
    for cost in costs.values():
        if cost.possible:
            figures = [value for value in cost.json().values() if isinstance(value, int | float)]
            assert all(math.isfinite(each) and each >= -1e-9 for each in figures)
            assert cost.total_s >= cost.ttft_s


@given(share=st.floats(0, 1))
def test_the_more_is_resident_the_less_a_question_costs(share: float) -> None:
    partly = PrefixFacts(tokens=10_000, resident_tokens=int(10_000 * share))
    some = price(situation(corpus=partly))[Mode.CAG]
    assert price(situation())[Mode.CAG].total_s <= some.total_s + 1e-9
    assert (
        some.total_s <= price(situation(corpus=PrefixFacts(tokens=10_000)))[Mode.CAG].total_s + 1e-9
    )


def test_a_search_finds_no_more_than_the_collection_holds() -> None:
    """What is taken before the first search is for collections that are larger."""
    rag = RagFacts(found_tokens=1200, scaffold_tokens=50)
    small = situation(rag=rag, corpus=PrefixFacts(tokens=89), question_tokens=32)
    assert price(small)[Mode.RAG].prompt_tokens == 50 + 39 + 32
    assert price(small)[Mode.RAG].prompt_tokens <= price(small)[Mode.CAG].prompt_tokens
    uncounted = situation(rag=rag, corpus=None, question_tokens=32)
    assert price(uncounted)[Mode.RAG].prompt_tokens == 50 + 1200 + 32
