"""What corpora count in the engine's memory: a little above requests, and never for ever."""

import time

from hypothesis import given
from hypothesis import strategies as st

from app.corpora.standing import (
    Standing,
    first_standing,
    keeps_by_priority,
    knows_priorities,
)

NOW = 1_800_000_000.0
PREEMPTION_THRESHOLD = 10
"""SGLang's default of --priority-scheduling-preemption-threshold."""


@given(st.integers(-(2**31), 2**31), st.integers(-(2**31), 2**31))
def test_a_corpus_stands_above_requests_but_pushes_none_out(base: int, priority: int) -> None:
    ahead = Standing(base=base).of_corpus(priority) - base
    assert 0 < ahead <= PREEMPTION_THRESHOLD


@given(st.integers(0, 5), st.integers(0, 5))
def test_a_higher_priority_never_stands_lower(one: int, more: int) -> None:
    standing = Standing(base=7)
    assert standing.of_corpus(one) <= standing.of_corpus(one + more)


def test_the_base_is_lifted_above_what_is_left_over() -> None:
    standing = Standing(base=100)
    little = standing.left(50, pool_tokens=1000, at=NOW)
    assert (little.base, little.left_over_tokens) == (100, 50)
    much = little.left(51, pool_tokens=1000, at=NOW)
    assert much.left_over_tokens == 0
    assert much.base > standing.of_corpus(9)


def test_a_lift_pushes_out_no_request_that_was_sent_before() -> None:
    before = Standing(base=100)
    after = before.left(1000, pool_tokens=1000, at=NOW)
    assert after.of_corpus(9) - before.base <= PREEMPTION_THRESHOLD
    again = after.left(1000, pool_tokens=1000, at=NOW + 10)
    assert (again.base, again.left_over_tokens) == (after.base, 1000)
    later = again.left(0, pool_tokens=1000, at=NOW + 61)
    assert later.base > after.base


def test_however_often_it_is_lifted_a_later_gateway_stands_higher() -> None:
    standing, at = first_standing(), time.time()
    for _ in range(100):
        at += 1.0
        standing = standing.left(1000, pool_tokens=1000, at=at)
    assert standing.base <= at


def test_a_flush_takes_what_was_left_over_with_it() -> None:
    assert Standing(base=100, left_over_tokens=90).emptied() == Standing(base=100)


def test_a_later_gateway_stands_no_lower() -> None:
    assert first_standing().base >= 29_000_000


def test_what_the_engine_says_of_itself() -> None:
    both = {"enable_priority_scheduling": True, "radix_eviction_policy": "priority"}
    assert keeps_by_priority(both)
    assert knows_priorities(both)
    assert not keeps_by_priority(both | {"radix_eviction_policy": "lru"})
    assert not knows_priorities({})
