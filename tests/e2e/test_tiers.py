"""One prompt from each tier: the response, the ledger, the report and the engine count alike.

On the real SGLang, LMCache and Redis behind a gateway of its own. What is served from a tier is
what a cold engine said, and the verdict says what the tier's chunks cost. What each tier serves
after a restart of the engine is in `test_faults.py`.
"""

import pytest

from tests.e2e.books import assert_served, told_alike
from tests.e2e.tier_stack import PAGE_TOKENS, POOL_TOKENS, TierStack, eventually

pytestmark = [pytest.mark.engine, pytest.mark.timeout(900)]

PROMPT_WORDS = 300


@pytest.fixture(autouse=True)
def _healthy(tier_stack: TierStack) -> None:
    assert eventually(tier_stack.is_well, 60), tier_stack.ready()


def test_what_the_engine_holds_comes_from_the_gpu(tier_stack: TierStack) -> None:
    cold = tier_stack.remembered(PROMPT_WORDS)
    reply = told_alike(tier_stack, cold.prompt)

    ideal = (cold.tokens - 1) // PAGE_TOKENS * PAGE_TOKENS
    assert reply.served == {"gpu": ideal, "ram": 0, "ssd": 0, "redis": 0}
    assert reply.block["verdict"] == "hit"
    assert reply.is_like(cold)


def test_what_the_engine_evicted_comes_from_ram(tier_stack: TierStack) -> None:
    cold = tier_stack.remembered(PROMPT_WORDS)
    tier_stack.fill(POOL_TOKENS)

    assert_served(told_alike(tier_stack, cold.prompt), cold, "ram")


def test_what_a_full_ram_evicted_comes_from_the_disk(tier_stack: TierStack) -> None:
    cold = tier_stack.remembered(PROMPT_WORDS)
    evicted = tier_stack.tier_status()["evictions"]["ram"]
    tier_stack.turn_ram_over()

    assert_served(told_alike(tier_stack, cold.prompt), cold, "ssd")
    assert tier_stack.tier_status()["evictions"]["ram"] > evicted


def test_with_redis_as_the_only_tier_below_ram_it_comes_from_redis(tier_stack: TierStack) -> None:
    cold = tier_stack.remembered(PROMPT_WORDS)
    tier_stack.forget()

    with tier_stack.switched_off("ssd"):
        assert_served(told_alike(tier_stack, cold.prompt), cold, "redis")


def test_the_report_finds_no_difference_to_the_engines_own_count(tier_stack: TierStack) -> None:
    check = tier_stack.report()["cross_check"]
    assert check["difference_tokens"] == 0, check
