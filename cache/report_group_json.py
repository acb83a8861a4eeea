"""Groups of requests and their times as JSON values. Pure; unknown is null, never 0."""

from dataclasses import asdict

from cache.report_shares import PromptShares, prompt_shares
from cache.report_values import Breakdown, Group, TtftShare, TtftSplit, Waterfall
from cache.summary import Foretold, Percentiles, Summary, TokenSum


def breakdown_json(found: Breakdown) -> dict[str, object]:
    """Groups in the order of their prompt tokens, and what was left over as one."""
    return {
        "by": list(found.by),
        "groups": [group_json(group) for group in found.groups],
        "other_groups": found.rest_groups,
        "other": None if found.rest is None else group_json(found.rest),
    }


def group_json(group: Group) -> dict[str, object]:
    """One group's sums."""
    summary = group.summary
    tiers = summary.by_tier
    return {
        "group": dict(summary.group),
        "requests": summary.requests,
        "errors": summary.errors,
        "aborted": summary.aborted,
        "prompt_tokens": _sum_json(summary.prompt),
        "completion_tokens": _sum_json(summary.completion),
        "ideal_tokens": _sum_json(summary.ideal),
        "cached_tokens": _sum_json(summary.cached),
        "cached_by_tier": {
            "gpu": _sum_json(tiers.gpu),
            "ram": _sum_json(tiers.ram),
            "ssd": _sum_json(tiers.ssd),
            "redis": _sum_json(tiers.redis),
            "storage": _sum_json(tiers.storage),
        },
        "prompt_shares": _shares_json(prompt_shares(group)),
        "hit_rate": _rate_json(summary),
        "waterfall": None if group.waterfall is None else _waterfall_json(group.waterfall),
        "verdicts": dict(summary.verdicts),
        "foretold": _foretold_json(summary.foretold),
        "ttft_s": _percentiles_json(summary.ttft),
        "e2e_s": _percentiles_json(summary.e2e),
    }


def times_json(split: TtftSplit) -> dict[str, object]:
    """Times to first token by re-use, with the buckets of the plot."""
    return {
        "with_hits": _share_json(split.with_hits),
        "without_hits": _share_json(split.without),
        "unknown": _share_json(split.unknown),
    }


def _shares_json(shares: PromptShares) -> dict[str, object]:
    """Parts that add up to all prompt tokens."""
    return asdict(shares) | {"lost": dict(shares.lost)}


def _rate_json(summary: Summary) -> dict[str, object]:
    return {
        "rate": summary.hit.rate,
        "cached_tokens": summary.hit.cached_tokens,
        "prompt_tokens": summary.hit.prompt_tokens,
        "requests": summary.hit.requests,
        "unknown_requests": summary.requests - summary.hit.requests,
    }


def _waterfall_json(fall: Waterfall) -> dict[str, object]:
    return {
        "requests": fall.requests,
        "prompt_tokens": fall.prompt_tokens,
        "new_tokens": fall.new_tokens,
        "ideal_tokens": fall.ideal_tokens,
        "ideal_rate": fall.ideal_rate,
        "lost_tokens": dict(fall.lost),
        "cached_tokens": fall.cached_tokens,
    }


def _foretold_json(foretold: Foretold) -> dict[str, object]:
    return {
        "requests": foretold.requests,
        "exact": foretold.exact,
        "predicted_tokens": foretold.predicted_tokens if foretold.requests else None,
        "cached_tokens": foretold.cached_tokens if foretold.requests else None,
    }


def _sum_json(figure: TokenSum) -> dict[str, object]:
    return {
        "tokens": figure.tokens if figure.known_requests else None,
        "known_requests": figure.known_requests,
        "unknown_requests": figure.unknown_requests,
    }


def _percentiles_json(times: Percentiles | TtftShare) -> dict[str, object]:
    return {
        "requests": times.requests,
        "p50": times.p50_s,
        "p90": times.p90_s,
        "p99": times.p99_s,
    }


def _share_json(kind: TtftShare) -> dict[str, object]:
    buckets = [{"up_to": bound, "requests": number} for bound, number in kind.buckets]
    return _percentiles_json(kind) | {"buckets": buckets}
