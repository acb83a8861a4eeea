"""The answers to several prompts as one. Pure."""

from collections.abc import Sequence

from app.accounts import JSONObject

_COUNTS = ("prompt_tokens", "completion_tokens", "total_tokens")


def joined(answers: Sequence[JSONObject]) -> JSONObject:
    """One answer, or one last part, of those to each prompt: choices in order, usage summed.

    `foreword` has the first prompt's id, and what is told of each prompt under `prompts`.
    """
    first, *others = answers
    if not others:
        return first
    whole = first | {"choices": [choice for answer in answers for choice in answer["choices"]]}
    if "usage" in first:
        whole["usage"] = _summed([answer["usage"] for answer in answers])
    if "foreword" in first:
        blocks = [answer["foreword"] for answer in answers]
        whole["foreword"] = {"request_id": blocks[0]["request_id"], "prompts": blocks}
    return whole


def _summed(usages: Sequence[JSONObject | None]) -> JSONObject | None:
    """Tokens of all prompts; None where the engine didn't tell them of each."""
    told = [usage for usage in usages if usage is not None]
    if len(told) < len(usages):
        return None
    sums: JSONObject = {name: sum(usage[name] for usage in told) for name in _COUNTS}
    details = [usage.get("prompt_tokens_details") or {} for usage in told]
    cached = [each.get("cached_tokens") for each in details]
    known = [tokens for tokens in cached if tokens is not None]
    all_known = len(known) == len(cached)
    return sums | {
        "prompt_tokens_details": {"cached_tokens": sum(known)} if all_known else None,
    }
