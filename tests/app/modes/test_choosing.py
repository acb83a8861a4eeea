"""Rules first, then cost, then whether a switch is earned; and what is learned on the way."""

import json
from dataclasses import replace

import msgspec
import pytest

from app.modes.choosing import Deployment, Question, choose, priced, ruled
from app.modes.costs import PrefixFacts
from app.modes.gate import GateVerdict
from app.modes.learning import (
    Answered,
    CollectionLearning,
    EngineLearning,
    LearningRules,
    from_state,
    to_state,
)
from app.modes.prices import Decision
from app.modes.switch import SwitchRules
from app.schemas import Mode

RULES = SwitchRules()
WARM = Deployment(
    window_tokens=32_000,
    pool_tokens=60_000,
    tier=None,
    corpus=PrefixFacts(tokens=4000, resident_tokens=4000),
)


def passes(_there: Mode, _here: Mode) -> GateVerdict:
    return GateVerdict(passes=True, note="no question set: decided by cost only")


def decided(
    learning: CollectionLearning, deployment: Deployment = WARM, *, at: float = 0.0
) -> Decision:
    return choose(
        learning, EngineLearning(), Question(), deployment, gate=passes, rules=RULES, at=at
    )


@pytest.mark.parametrize(
    ("question", "mode", "words"),
    [
        (Question(conversation_mode=Mode.CAG, asked=Mode.RAG), Mode.CAG, "conversation began"),
        (Question(filtered=True, pinned=Mode.CAG), Mode.RAG, "filters"),
        (Question(asked=Mode.HYBRID, pinned=Mode.CAG), Mode.HYBRID, "the request asks for it"),
        (Question(pinned=Mode.CAG), Mode.CAG, "pinned"),
    ],
)
def test_rules_come_before_costs(question: Question, mode: Mode, words: str) -> None:
    decision = ruled(question, WARM)
    assert decision is not None
    assert decision.mode is mode
    assert words in decision.reason


def test_auto_leaves_it_to_cost_even_where_the_collection_is_pinned() -> None:
    assert ruled(Question(asked=Mode.AUTO, pinned=Mode.CAG), WARM) is None
    assert ruled(Question(), WARM) is None


def test_a_collection_without_documents_is_not_priced() -> None:
    decision = ruled(Question(), replace(WARM, empty=True))
    assert decision is not None
    assert "no documents" in decision.reason


def test_a_warm_corpus_is_shown_whole_and_the_reason_has_the_figures() -> None:
    decision = decided(CollectionLearning())
    assert decision.mode is Mode.CAG
    assert "in the long run" in decision.reason
    assert "cost only" in decision.reason
    costs = decision.costs_json()
    assert json.loads(json.dumps(costs))["cag"]["possible"]


def test_what_changes_more_often_than_it_is_asked_is_retrieved() -> None:
    learning = CollectionLearning()
    for revision in range(6):
        learning.ask(float(revision), revision)
    decision = decided(learning, at=6.0)
    assert decision.mode is Mode.RAG
    assert "change more often than they are asked" in (decision.costs[Mode.CAG].problem or "")


def test_a_corpus_that_may_not_be_shown_whole_is_retrieved() -> None:
    decision = decided(CollectionLearning(), replace(WARM, corpus_problem="only for some"))
    assert decision.mode is Mode.RAG
    assert decision.costs[Mode.CAG].problem == "only for some"


def test_answers_teach_what_retrieval_finds() -> None:
    learning, engine = CollectionLearning(), EngineLearning()
    answered = Answered(
        collection_id="vs_1",
        mode=Mode.RAG,
        question_tokens=30,
        prompt_tokens=1000,
        cached_tokens=300,
        found_tokens=900,
        found={"doc-1": 500, "doc-2": 400},
        scaffold_tokens=60,
        retrieval_s=0.02,
        ttft_s=0.5,
    )
    learning.learn(answered, 1.0)
    engine.learn(answered, 1.0)
    rag = learning.rag()
    assert rag.found_tokens == 900
    assert rag.cached_share == pytest.approx(240 / 900)
    assert rag.retrieval_s == 0.02
    assert rag.scaffold_tokens == 60
    assert learning.tail_tokens() == 10
    assert learning.found == {"doc-1": 500, "doc-2": 400}
    assert engine.ttft.samples == 1
    costs = priced(learning, engine, Question(tokens=30), WARM, at=1.0)
    assert costs[Mode.RAG].prefill_tokens == pytest.approx(700)


def test_later_turns_and_unknown_figures_teach_nothing_of_a_mode() -> None:
    learning, engine = CollectionLearning(), EngineLearning()
    later = Answered(
        mode=Mode.RAG, first_turn=False, prompt_tokens=5000, cached_tokens=4900, found_tokens=50
    )
    learning.learn(later, 1.0)
    learning.learn(msgspec.structs.replace(later, first_turn=True, cached_tokens=None), 1.0)
    engine.learn(Answered(prompt_tokens=10), 1.0)
    assert learning.rag().found_tokens == LearningRules().found_tokens
    assert engine.ttft.samples == 0


def test_what_was_learned_survives_as_json() -> None:
    learning = CollectionLearning()
    for revision in (1, 1, 2):
        learning.ask(100.0 + revision, revision)
    learning.learn(
        Answered(
            mode=Mode.RAG, prompt_tokens=900, cached_tokens=100, found_tokens=700, found={"d": 7},
            scaffold_tokens=50, retrieval_s=0.1,
        ),
        103.0,
    )  # fmt: skip
    decided(learning, at=104.0)
    stored = json.loads(json.dumps(to_state(learning)))
    assert to_state(from_state(stored, LearningRules())) == to_state(learning)


@pytest.mark.parametrize(
    "state",
    [
        {},
        {"mode": "none", "since": "x", "found": {"a": "b"}, "asked": {"at": None}},
        {"mode": "cag", "missed_s": [1], "stale": 4, "core": 7, "revision": "1"},
    ],
)
def test_a_state_that_is_not_as_it_should_be_begins_anew(state: dict[str, object]) -> None:
    learning = from_state(state, LearningRules())
    assert learning.found == {}
    assert learning.revision is None
    assert decided(learning).mode is Mode.CAG
