"""One request's re-use in all the places where it is told: they must say the same."""

from tests.e2e.replies import TIERS, Reply, Tokens
from tests.e2e.tier_stack import CHUNK_TOKENS, PAGE_TOKENS, TierStack

# What the scaffold and the chat template take of every prompt: the engine holds it all the time.
_MOST_SHARED_TOKENS = 64


def told_alike(stack: TierStack, prompt: str) -> Reply:
    """An answer whose re-use everybody counts alike."""
    engine, report = stack.engine_count(), _reported(stack)
    reply = stack.ask(prompt)
    assert reply.answered, reply
    served = reply.served

    row = stack.report() and stack.rows()[reply.request_id]
    assert {tier: row[f"cached_{tier}"] for tier in TIERS} == served
    assert row["cached_tokens"] == reply.block["cached_tokens"] == sum(served.values())
    assert (row["verdict"], row["cause"]) == (reply.block["verdict"], reply.block["cause"])
    assert _grown(_reported(stack), report) == served
    assert _grown(stack.engine_count(), engine) == {
        "device": served["gpu"],
        "storage": served["ram"] + served["ssd"] + served["redis"],
    }
    return reply


def _reported(stack: TierStack) -> Tokens:
    """Re-used tokens by tier in the report's total."""
    total = stack.report()["total"]
    return {tier: (total["cached_by_tier"][tier]["tokens"] or 0) if total else 0 for tier in TIERS}


def _grown(after: Tokens, before: Tokens) -> Tokens:
    return {name: after[name] - before[name] for name in after}


def assert_served(reply: Reply, cold: Reply, tier: str) -> None:
    """All whole chunks came, from this tier, but for what the engine held of the scaffold."""
    served, chunks = reply.served, (cold.tokens - 1) // CHUNK_TOKENS * CHUNK_TOKENS
    assert served["gpu"] <= _MOST_SHARED_TOKENS, (served, reply.block)
    assert served == dict.fromkeys(TIERS, 0) | {
        "gpu": served["gpu"],
        tier: chunks - served["gpu"],
    }
    assert reply.is_like(cold)
    _assert_rounded_to(reply, chunks)


def _assert_rounded_to(reply: Reply, tokens: int) -> None:
    """All whole pages could have been re-used; of those, the last chunk's are lost to rounding."""
    ideal = (reply.tokens - 1) // PAGE_TOKENS * PAGE_TOKENS
    assert reply.block["ideal_tokens"] == ideal
    rounded = ("rounding", "chunk") if tokens < ideal else ("hit", None)
    assert (reply.block["verdict"], reply.block["cause"]) == rounded
