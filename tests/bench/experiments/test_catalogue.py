"""Every experiment asks what it says: the same content, laid out differently."""

from collections.abc import Callable
from dataclasses import replace

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.experiments import contents
from bench.experiments.catalogue import EXPERIMENTS
from bench.experiments.contents import Content, Sizes, content_sha256
from bench.experiments.layouts import Layout, laid_out, messages
from bench.experiments.run import warm_up_text
from bench.workloads import Workload

SMALL = Sizes(requests=8, prefixes=3, prefix_words=40, documents=3, document_words=50)
MAKERS = (
    contents.prefix_repetition,
    contents.document_qa,
    contents.no_reuse,
    contents.one_character,
    contents.rotation,
)


def _text(content: Content, layout: Layout) -> str:
    return "\n".join(message["content"] for message in messages(content, layout))


def _texts(workload: Workload) -> list[str]:
    return [
        "\n".join(message["content"] for message in orjson.loads(bytes(request.body))["messages"])
        for request in workload.requests
    ]


@pytest.mark.parametrize("make", MAKERS)
def test_the_same_seed_makes_the_same_bytes_and_another_others(
    make: Callable[[Sizes], list[Content]],
) -> None:
    def hashed(sizes: Sizes) -> str:
        made = laid_out("w", make(sizes), Layout.NAIVE, max_tokens=4, seed=sizes.seed)
        return made.header.sha256

    assert hashed(SMALL) == hashed(SMALL)
    assert hashed(SMALL) != hashed(Sizes(seed=2, requests=8))


@given(seed=st.integers(0, 1000), layout=st.sampled_from(Layout))
@settings(max_examples=40, deadline=None)
def test_every_layout_has_every_part_once(seed: int, layout: Layout) -> None:
    asked = contents.document_qa(Sizes(seed=seed, requests=4, documents=3, document_words=30))
    for content in asked:
        text = _text(content, layout)
        rules = content.rules if layout is not Layout.ONE_CHARACTER else content.rules[10:]
        for part in (rules, content.question, content.clock, *content.shared):
            assert text.count(part) == 1


def test_what_stands_at_the_top_is_what_the_layout_says() -> None:
    (content, *_) = contents.document_qa(SMALL)
    assert _text(content, Layout.SCAFFOLD_FIRST).startswith(content.rules)
    assert _text(content, Layout.CLOCK_ON_TOP).startswith(f"The time is {content.clock}")
    assert _text(content, Layout.NAIVE).startswith(f"The time is {content.clock}")
    assert _text(content, Layout.USER_FIRST).startswith(content.question)


def test_one_character_parts_warm_requests_from_the_cold_ones_at_the_top() -> None:
    asked = contents.one_character(SMALL)
    cold = {
        each.shared: _text(each, Layout.ONE_CHARACTER) for each in asked if each.phase == "cold"
    }
    for content in asked:
        if content.phase == "warm":
            changed, kept = (
                _text(content, layout) for layout in (Layout.ONE_CHARACTER, Layout.SCAFFOLD_FIRST)
            )
            assert len(changed) == len(kept) + 1
            assert changed.startswith("Documents assistant.")
            assert cold[content.shared].startswith("Document assistant.")


def test_the_control_shares_nothing_longer_than_a_clock() -> None:
    for layout in (Layout.NAIVE, Layout.SCAFFOLD_FIRST):
        texts = [_text(each, layout) for each in contents.no_reuse(SMALL)]
        for number, one in enumerate(texts):
            for other in texts[number + 1 :]:
                same = next(n for n, (x, y) in enumerate(zip(one, other, strict=False)) if x != y)
                assert same < 40


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_arms_of_each_case_ask_for_the_same_content_under_the_same_ids(name: str) -> None:
    experiment = EXPERIMENTS[name]
    cases = experiment.cases(experiment.sizes)
    assert cases
    assert len({case.name for case in cases}) == len(cases)
    for case in cases:
        a, b = case.a.workload, case.b.workload
        assert a.header.parameters["content_sha256"] == b.header.parameters["content_sha256"]
        assert [r.id for r in a.requests] == [r.id for r in b.requests]
        assert any(r.labels["phase"] == "warm" for r in a.requests)
        if "workload" not in case.varies:
            assert a.header.sha256 == b.header.sha256
            assert case.a.settings != case.b.settings


def test_the_tiers_working_set_is_five_times_the_pool() -> None:
    experiment = EXPERIMENTS["tiers"]
    (case,) = experiment.cases(experiment.sizes)
    documents = {c.shared for c in contents.rotation(experiment.sizes)}
    words = sum(len(text.split()) for (text,) in documents)
    assert 4.8 <= words * 1.1 / case.a.settings.pool_tokens <= 5.2
    assert (case.a.settings.tiers, case.b.settings.tiers) == (False, True)


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_every_prompt_has_room_in_every_pool(name: str) -> None:
    """The warm-up's too, of which each character may be a token."""
    experiment = EXPERIMENTS[name]
    for case in experiment.cases(replace(experiment.sizes, tokens_per_word=1.0)):
        pool = min(case.a.settings.pool_tokens, case.b.settings.pool_tokens)
        assert len(warm_up_text(1)) < pool
        assert max(len(text.split()) for text in _texts(case.a.workload)) * 1.2 < pool


def test_content_is_one_digest_whatever_the_layout() -> None:
    asked = contents.document_qa(SMALL)
    assert content_sha256(asked) == content_sha256(contents.document_qa(SMALL))
    assert content_sha256(asked) != content_sha256(contents.no_reuse(SMALL))


def test_a_scale_changes_lengths_and_nothing_else() -> None:
    small = Sizes().scaled(0.5)
    assert small.document_words == Sizes().document_words / 2
    assert small.rotation_words == Sizes().rotation_words / 2
    assert (small.requests, small.documents) == (Sizes().requests, Sizes().documents)
    assert Sizes().scaled(1) == Sizes()
