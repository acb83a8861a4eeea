"""What a workload allows, against a plain count over all prompts so far."""

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.metrics import reuse_bounds
from bench.workloads import Workload, answer_of, english_words, make_workload
from bench.workloads.file import asked
from bench.workloads.prefix_repetition import PrefixRepetition, prefix_repetition

WORDS = english_words()


def workload_of(*texts: str) -> Workload:
    requests = [
        asked({"messages": [{"role": "user", "content": text}]}, id=str(at), max_tokens=1)
        for at, text in enumerate(texts)
    ]
    return make_workload("given", requests, seed=None, parameters={})


def plain_count(texts: list[str], page: int) -> tuple[int, int]:
    """Shared words with any prompt before, in whole pages; and all words. Roles count as one."""
    prompts = [["user", *text.split()] for text in texts]
    held = total = 0
    for at, prompt in enumerate(prompts):
        best = 0
        for earlier in prompts[:at]:
            same = 0
            while same < min(len(prompt), len(earlier)) and prompt[same] == earlier[same]:
                same += 1
            best = max(best, same)
        held += best - best % page
        total += len(prompt)
    return held, total


@given(
    st.lists(
        st.lists(st.sampled_from(["a", "b"]), min_size=1, max_size=12).map(" ".join),
        min_size=1,
        max_size=8,
    ),
    st.integers(1, 4),
)
def test_the_bound_is_that_of_a_plain_count(texts: list[str], page: int) -> None:
    (made,) = reuse_bounds(workload_of(*texts), WORDS, page=page)
    held, total = plain_count(texts, page)
    assert made.infinite == pytest.approx(held / total)
    assert made.pooled_lru is None


@given(
    st.lists(
        st.lists(st.sampled_from(["a", "b", "c"]), min_size=1, max_size=9).map(" ".join),
        min_size=1,
        max_size=8,
    ),
    st.integers(1, 40),
)
def test_a_bounded_cache_never_has_more(texts: list[str], pool: int) -> None:
    workload = workload_of(*texts)
    (made,) = reuse_bounds(workload, WORDS, page=1, pool=pool)
    (large,) = reuse_bounds(workload, WORDS, page=1, pool=10_000)
    assert made.pooled_lru is not None
    assert made.pooled_lru <= made.infinite
    assert large.pooled_lru == pytest.approx(large.infinite)


def test_a_second_pass_finds_all_of_the_first() -> None:
    spec = PrefixRepetition(prefix_len=63, suffix_len=16, num_prefixes=3, num_prompts=9)
    made = make_workload("p", prefix_repetition(spec, WORDS, 1), seed=1, parameters={})
    first, second = reuse_bounds(made, WORDS, passes=2)
    # 80 words with the role; six of nine find the 64 of their prefix.
    assert first.infinite == pytest.approx(6 * 64 / (9 * 80))
    assert second.infinite == pytest.approx(1.0)


def test_the_control_allows_nothing() -> None:
    spec = PrefixRepetition(prefix_len=63, suffix_len=16, num_prompts=30, unique=True)
    made = make_workload("p", prefix_repetition(spec, WORDS, 1), seed=1, parameters={})
    assert reuse_bounds(made, WORDS)[0].infinite == 0.0


def test_an_answer_is_there_for_the_turn_after_it() -> None:
    question = {"role": "user", "content": "one two three"}
    turns = [[question], [question, answer_of("t0"), {"role": "user", "content": "four"}]]
    requests = [
        asked({"messages": messages}, id=f"t{turn}", session="s", turn=turn, max_tokens=5)
        for turn, messages in enumerate(turns)
    ]
    made = make_workload("turns", requests, seed=None, parameters={})
    # Of 4 + 12 pieces the second turn finds 10: all but its own question and that one's role.
    assert reuse_bounds(made, WORDS, page=1)[0].infinite == pytest.approx(10 / 16)
    assert orjson.loads(bytes(requests[0].body))["messages"] == [question]
