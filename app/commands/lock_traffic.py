"""What a running gateway's ledger says about a template's requests, for the cost of a change."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from prompts.lock_cost import Traffic

# Short enough that a gateway which has just started isn't taken for a quiet one.
_WINDOW_S = 3600
# Below a page, the time to the first token says nothing about prefill.
_LEAST_TOKENS = 64


def read_report(url: str | None, home: Path) -> dict[str, Any] | None:
    """The report of the last hour by template; None where no gateway is found or asked for.

    Raises:
        GatewayAnswerError: `url` was given and doesn't answer.
    """
    # httpx is only paid for where there is something to ask.
    from app.commands.gateway import GatewayAnswerError, checked, gateway

    parameters = {"format": "json", "by": "template", "since": f"{_WINDOW_S // 60}m"}
    try:
        with gateway(url, home) as client:
            found = json.loads(checked(client.get("/foreword/report", params=parameters)).text)
    except GatewayAnswerError:
        if url is not None:
            raise
        return None
    return found if isinstance(found, dict) else None


def traffic_of(reference: str | None, report: Mapping[str, Any] | None, given: Traffic) -> Traffic:
    """The requests of one template: what was given on the command line, else what was seen."""
    seen = _seen(reference, report)
    prefill = given.prefill_tok_s or seen.prefill_tok_s
    return Traffic(
        requests_per_s=given.requests_per_s or seen.requests_per_s,
        prefill_tok_s=prefill,
        cached_tokens=seen.cached_tokens,
        estimated=given.prefill_tok_s is None and seen.estimated,
    )


def _seen(reference: str | None, report: Mapping[str, Any] | None) -> Traffic:
    groups = report["groups"] if report is not None else ()
    for group in groups:
        if group["group"]["template"] == reference and group["requests"]:
            return _group_traffic(group)
    return Traffic()


def _group_traffic(group: Mapping[str, Any]) -> Traffic:
    hit, ttft_s = group["hit_rate"], group["ttft_s"]["p50"]
    known = hit["requests"]
    computed = (hit["prompt_tokens"] - hit["cached_tokens"]) / known if known else 0
    prefill = computed / ttft_s if ttft_s and computed >= _LEAST_TOKENS else None
    return Traffic(
        requests_per_s=group["requests"] / _WINDOW_S,
        prefill_tok_s=prefill,
        cached_tokens=hit["cached_tokens"] / known if known else None,
        estimated=prefill is not None,
    )
