"""A report as JSON for programs. Pure; a figure that isn't known is null, never 0.

`SCHEMA_VERSION` counts up when a field changes its meaning or goes; fields may be added.
"""

import json
from dataclasses import asdict
from datetime import UTC, datetime

from cache.alerts import BudgetCheck, TemplateRates, VersionFell
from cache.crosscheck import CrossCheck, SourceTokens
from cache.flame import FlameNode
from cache.ledger import LedgerStatus
from cache.report_group_json import breakdown_json, group_json, times_json
from cache.report_values import OverTime, Report, TimeLine
from cache.savings import Savings

SCHEMA_VERSION = 2


def to_json(report: Report) -> str:
    """The report as one JSON object, in ASCII."""
    return json.dumps(report_json(report), indent=1, allow_nan=False)


def report_json(report: Report) -> dict[str, object]:
    """The report as plain JSON values."""
    groups = breakdown_json(report.groups)
    return {
        "schema_version": SCHEMA_VERSION,
        "made_at": _iso(report.made_at),
        "since": _iso(report.since),
        "until": _iso(report.until),
        "asked_since": _iso(report.asked_since),
        "asked_until": _iso(report.asked_until),
        "first_at": _iso(report.first_at),
        **groups,
        "total": None if report.total is None else group_json(report.total),
        "tenants": breakdown_json(report.tenants),
        "modes": breakdown_json(report.modes),
        "collections": breakdown_json(report.collections),
        "replicas": breakdown_json(report.replicas),
        "ttft_s": None if report.ttft is None else times_json(report.ttft),
        "over_time": None if report.over_time is None else _over_time_json(report.over_time),
        "alerts": {
            "version_fell": [_fall_json(fall) for fall in report.falls],
            "budgets": [_budget_json(check) for check in report.budgets],
        },
        "savings": None if report.savings is None else _savings_json(report.savings),
        "flame": None if report.flame is None else _flame_json(report.flame),
        "cross_check": None if report.cross_check is None else _check_json(report.cross_check),
        "ledger": None if report.ledger is None else _ledger_json(report.ledger),
        "response_cache": None if report.given_again is None else asdict(report.given_again),
    }


def _iso(moment: datetime | None) -> str | None:
    return None if moment is None else moment.astimezone(UTC).isoformat()


def _over_time_json(over: OverTime) -> dict[str, object]:
    return {
        "step_s": int(over.step.total_seconds()),
        "everything": _line_json(over.everything)["points"],
        "templates": [_line_json(line) for line in over.templates],
        "left_out": over.left_out,
    }


def _line_json(line: TimeLine) -> dict[str, object]:
    points = [
        {
            "at": _iso(point.at),
            "requests": point.requests,
            "hit_rate": point.hit_rate,
            "ideal_rate": point.ideal_rate,
        }
        for point in line.points
    ]
    return {"template": line.template, "points": points}


def _fall_json(fall: VersionFell) -> dict[str, object]:
    return {
        "now": _rates_json(fall.now),
        "before": _rates_json(fall.before),
        "fell_by": fall.fell_by,
        "ideal_fell_too": fall.ideal_fell_too,
    }


def _rates_json(rates: TemplateRates) -> dict[str, object]:
    return {
        "template": rates.template,
        "requests": rates.requests,
        "known_requests": rates.hit.requests,
        "hit_rate": rates.hit.rate,
        "ideal_rate": rates.ideal_rate,
    }


def _budget_json(check: BudgetCheck) -> dict[str, object]:
    return {
        "template": check.template,
        "budget": check.budget,
        "status": check.status.value,
        "hit_rate": check.rate,
        "requests": check.requests,
    }


def _savings_json(savings: Savings) -> dict[str, object]:
    return {
        "computed_from": {
            "prefill_tokens_per_s": savings.tokens_per_s,
            "measured_tokens": savings.measured_tokens,
            "gpus_per_rank": savings.gpus_per_rank,
            "price_per_gpu_hour": savings.price_per_gpu_hour,
        },
        "saved": {
            "tokens": savings.saved_tokens,
            "gpu_s": savings.saved_gpu_s,
            "ttft_s_per_request": savings.ttft_per_request_s,
            "money": savings.saved_money,
        },
        "lost": {
            "tokens": savings.lost_tokens,
            "gpu_s": savings.lost_gpu_s,
            "money": savings.lost_money,
        },
    }


def _flame_json(node: FlameNode) -> dict[str, object]:
    return {
        "label": node.label,
        "start": node.start,
        "tokens": node.tokens,
        "requests": node.requests,
        "served_tokens": node.served_tokens,
        "known_tokens": node.known_tokens,
        "cached_tokens": node.cached_tokens,
        "children": [_flame_json(child) for child in node.children],
    }


def _check_json(check: CrossCheck) -> dict[str, object]:
    return {
        "since": _iso(check.since),
        "until": _iso(check.until),
        "is_whole": check.is_whole,
        "difference_tokens": check.difference_tokens,
        "difference_ratio": check.difference_ratio,
        "unknown_requests": check.unknown_requests,
        "engine_resets": check.resets,
        "unlabelled_tokens": check.unlabelled_tokens,
        "templates": [
            {
                "template": line.template,
                "responses": None if line.is_unknown else _source_json(line.responses),
                "known_requests": line.known_requests,
                "unknown_requests": line.unknown_requests,
                "engine": _source_json(line.engine),
                "difference_tokens": line.difference_tokens,
                "difference_ratio": line.difference_ratio,
            }
            for line in check.lines
        ],
    }


def _source_json(tokens: SourceTokens) -> dict[str, int]:
    return asdict(tokens) | {"total": tokens.total}


def _ledger_json(status: LedgerStatus) -> dict[str, object]:
    return {
        "pending": status.pending,
        "written": status.written,
        "dropped": status.dropped,
        "degraded": status.degraded,
        "last_error": None if status.last_error is None else str(status.last_error),
    }
