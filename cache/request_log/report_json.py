"""A diagnosis for programs."""

from typing import Any

from cache.request_log.diagnosis import Diagnosis, GroupReport, HitRates
from prompts.lint.findings import Finding
from prompts.lint.json_output import cost_json

SCHEMA_VERSION = 1


def to_json(diagnosis: Diagnosis) -> dict[str, Any]:
    """The diagnosis as plain JSON values; `null` is unknown."""
    return {
        "schema_version": SCHEMA_VERSION,
        "path": str(diagnosis.path),
        "tokens": "exact" if diagnosis.exact else "estimated",
        "page_size": diagnosis.page_size,
        "requests": diagnosis.requests,
        "bad_lines": {
            "count": diagnosis.bad_lines,
            "examples": [
                {"line": bad.line, "reason": bad.reason} for bad in diagnosis.bad_examples
            ],
        },
        "refused_by_chat_template": diagnosis.refused_by_chat_template,
        "tools_not_shown": diagnosis.tools_not_shown,
        "rates": _rates(diagnosis.rates),
        "reported": {
            "requests": diagnosis.reported.requests,
            "prompt_tokens": diagnosis.reported.prompt_tokens,
            "cached_tokens": diagnosis.reported.cached_tokens,
            "hit_rate": diagnosis.reported.hit_rate,
        },
        "groups": [_group(group) for group in diagnosis.groups],
        "curve": [
            {"capacity_tokens": point.capacity_tokens, "hit_rate": point.hit_rate}
            for point in diagnosis.curve
        ],
        "findings": [_finding(finding) for finding in diagnosis.findings],
    }


def _rates(rates: HitRates) -> dict[str, Any]:
    return {
        "prompt_tokens": rates.prompt_tokens,
        "ideal_cached_tokens": rates.cached_tokens,
        "ideal_hit_rate": rates.ideal,
        "repaired_prompt_tokens": rates.repaired_prompt_tokens,
        "repaired_cached_tokens": rates.repaired_cached_tokens,
        "repaired_hit_rate": rates.repaired,
    }


def _group(group: GroupReport) -> dict[str, Any]:
    return {
        "label": group.label,
        "requests": group.requests,
        "conversations": group.conversations,
        "first_line": group.first_line,
        "diverges_at": group.diverges_at,
        "rates": _rates(group.rates),
        "codes": [finding.code for finding in group.findings],
    }


def _finding(finding: Finding) -> dict[str, Any]:
    return {
        "code": finding.code,
        "name": finding.name,
        "severity": finding.severity.value,
        "confidence": finding.confidence.value,
        "message": finding.message,
        "line": finding.place.line,
        "cost": cost_json(finding.cost) if finding.cost else None,
    }
