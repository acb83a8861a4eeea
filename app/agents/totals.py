"""What the steps of a run used together. Pure. Where one step's is unknown, the sum is, too."""

from collections.abc import Mapping, Sequence
from typing import Any

from app.responses.objects import reasoning_tokens

JSONObject = dict[str, Any]

_SUMMED = ("prompt_tokens", "ideal_tokens", "cached_tokens")
_KEPT = (
    "request_id", "template", "replica", "prompt_tokens", "ideal_tokens", "cached_tokens",
    "cached_by_tier", "ttft_s", "verdict", "divergence",
)  # fmt: skip


def step_report(usage: Mapping[str, Any], block: Mapping[str, Any]) -> JSONObject:
    """What is told of one step."""
    told = {name: block.get(name) for name in _KEPT}
    return told | {
        "output_tokens": usage.get("completion_tokens"),
        "reasoning_tokens": reasoning_tokens(usage),
    }


def summed_usage(reports: Sequence[JSONObject]) -> JSONObject | None:
    """OpenAI's usage, of all steps together; None before the first."""
    if not reports:
        return None
    prompt, cached = _sum(reports, "prompt_tokens"), _sum(reports, "cached_tokens")
    output = _sum(reports, "output_tokens")
    return {
        "input_tokens": prompt,
        "input_tokens_details": {
            "cached_tokens": cached,
            "cache_write_tokens": None if prompt is None or cached is None else prompt - cached,
        },
        "output_tokens": output,
        "output_tokens_details": {"reasoning_tokens": _sum(reports, "reasoning_tokens")},
        "total_tokens": None if prompt is None or output is None else prompt + output,
    }


def summed_block(reports: Sequence[JSONObject]) -> JSONObject:
    """Foreword's own: the sums, and each step."""
    return {name: _sum(reports, name) for name in _SUMMED} | {"steps": list(reports)}


def compaction_block(cost: Mapping[str, Any], reports: Sequence[JSONObject]) -> JSONObject:
    """What a compaction before the first step took, and had that step compute."""
    first = reports[0] if reports else {}
    prompt, cached = first.get("prompt_tokens"), first.get("cached_tokens")
    lost = None if prompt is None or cached is None else prompt - cached
    return {**cost, "tokens_after": prompt, "prefill_lost": lost}


def _sum(reports: Sequence[JSONObject], name: str) -> int | None:
    total = 0
    for report in reports:
        value = report.get(name)
        if not isinstance(value, int):
            return None
        total += value
    return total if reports else None
