"""How long a batch leaves the engine to others before it has it compute a long prompt again. Pure.

A request that comes while the engine computes a prompt waits for that. Short ones hold nobody up;
with long ones it is a matter of how seldom they are: the slowest hundredth of live traffic, say, is
what it was if far fewer than a hundredth of it meet one.
"""

import orjson

from app.batches.records import LineAnswer

# What an engine computes in about the time that a few steps of decoding take.
LONG_TOKENS = 512


def computed_tokens(answer: LineAnswer) -> int | None:
    """Prompt tokens that weren't re-used for an answer; None where that isn't known."""
    if not answer.succeeded:
        return None
    usage = orjson.loads(answer.body).get("usage") or {}
    prompt = usage.get("prompt_tokens", usage.get("input_tokens"))
    details = usage.get("prompt_tokens_details", usage.get("input_tokens_details")) or {}
    cached = details.get("cached_tokens")
    return None if prompt is None or cached is None else int(prompt - cached)


def rest_s(prefill_s: float, *, share: float, left: int, time_left_s: float) -> float:
    """Seconds until the next one, so that half of the time that is left does for all of them.

    Args:
        prefill_s: of the one that was answered.
        share: most of the time that they may take.
        left: how many of its kind are still to be answered.
    """
    return min(prefill_s / share, max(time_left_s, 0.0) / (2 * max(left, 1)))
