"""A report as JSON for programs. Pure; a figure that isn't known is null, never 0."""

import json
from datetime import UTC, datetime

from cache.crosscheck import CrossCheck, SourceTokens
from cache.ledger import LedgerStatus
from cache.report import Report
from cache.summary import Summary, TokenSum

SCHEMA_VERSION = 1


def to_json(report: Report) -> str:
    """The report as one JSON object, in ASCII."""
    return json.dumps(_report_json(report), indent=1, allow_nan=False)


def _report_json(report: Report) -> dict[str, object]:
    return {
        "schema_version": SCHEMA_VERSION,
        "made_at": _iso(report.made_at),
        "since": _iso(report.since),
        "until": _iso(report.until),
        "by": list(report.by),
        "groups": [_summary_json(summary) for summary in report.summaries],
        "total": None if report.total is None else _summary_json(report.total),
        "cross_check": None if report.cross_check is None else _check_json(report.cross_check),
        "ledger": None if report.ledger is None else _ledger_json(report.ledger),
    }


def _iso(moment: datetime | None) -> str | None:
    return None if moment is None else moment.astimezone(UTC).isoformat()


def _summary_json(summary: Summary) -> dict[str, object]:
    tiers = summary.by_tier
    return {
        "group": dict(summary.group),
        "requests": summary.requests,
        "errors": summary.errors,
        "aborted": summary.aborted,
        "prompt_tokens": _sum_json(summary.prompt),
        "completion_tokens": _sum_json(summary.completion),
        "cached_tokens": _sum_json(summary.cached),
        "cached_by_tier": {
            "gpu": _sum_json(tiers.gpu),
            "ram": _sum_json(tiers.ram),
            "ssd": _sum_json(tiers.ssd),
            "redis": _sum_json(tiers.redis),
            "storage": _sum_json(tiers.storage),
        },
        "hit_rate": {
            "rate": summary.hit.rate,
            "cached_tokens": summary.hit.cached_tokens,
            "prompt_tokens": summary.hit.prompt_tokens,
            "requests": summary.hit.requests,
            "unknown_requests": summary.requests - summary.hit.requests,
        },
        "ttft_s": {
            "requests": summary.ttft.requests,
            "p50": summary.ttft.p50_s,
            "p90": summary.ttft.p90_s,
        },
    }


def _sum_json(figure: TokenSum) -> dict[str, object]:
    return {
        "tokens": figure.tokens if figure.known_requests else None,
        "known_requests": figure.known_requests,
        "unknown_requests": figure.unknown_requests,
    }


def _check_json(check: CrossCheck) -> dict[str, object]:
    return {
        "since": _iso(check.since),
        "until": _iso(check.until),
        "difference_tokens": check.difference_tokens,
        "difference_ratio": check.difference_ratio,
        "unknown_requests": check.unknown_requests,
        "engine_resets": check.resets,
        "unlabelled_tokens": check.unlabelled_tokens,
        "templates": [
            {
                "template": line.template,
                "responses": _source_json(line.responses),
                "engine": _source_json(line.engine),
                "difference_tokens": line.difference_tokens,
                "difference_ratio": line.difference_ratio,
            }
            for line in check.lines
        ],
    }


def _source_json(tokens: SourceTokens) -> dict[str, int]:
    return {
        "gpu": tokens.gpu,
        "storage": tokens.storage,
        "unsplit": tokens.unsplit,
        "total": tokens.total,
    }


def _ledger_json(status: LedgerStatus) -> dict[str, object]:
    return {
        "pending": status.pending,
        "written": status.written,
        "dropped": status.dropped,
        "degraded": status.degraded,
        "last_error": None if status.last_error is None else str(status.last_error),
    }
