"""Groups of requests added up into one, for those that a report has no room for. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from functools import reduce

from cache.histograms import Histogram
from cache.summary import (
    Accounted,
    Foretold,
    HitRate,
    Lost,
    Percentiles,
    Summary,
    TierSums,
    TokenSum,
)


def add_up(found: Sequence[Summary]) -> Summary:
    """One summary of all requests in `found`, which are one at least; its group is empty."""
    return Summary(
        group={},
        requests=sum(s.requests for s in found),
        errors=sum(s.errors for s in found),
        aborted=sum(s.aborted for s in found),
        prompt=_tokens(s.prompt for s in found),
        completion=_tokens(s.completion for s in found),
        cached=_tokens(s.cached for s in found),
        ideal=_tokens(s.ideal for s in found),
        predicted=_tokens(s.predicted for s in found),
        new=_tokens(s.new for s in found),
        by_tier=TierSums(
            gpu=_tokens(s.by_tier.gpu for s in found),
            ram=_tokens(s.by_tier.ram for s in found),
            ssd=_tokens(s.by_tier.ssd for s in found),
            redis=_tokens(s.by_tier.redis for s in found),
            storage=_tokens(s.by_tier.storage for s in found),
        ),
        hit=HitRate(
            cached_tokens=sum(s.hit.cached_tokens for s in found),
            prompt_tokens=sum(s.hit.prompt_tokens for s in found),
            requests=sum(s.hit.requests for s in found),
        ),
        accounted=_accounted([s.accounted for s in found]),
        foretold=_foretold([s.foretold for s in found]),
        verdicts=_counts(s.verdicts for s in found),
        lost=Lost(
            requests=sum(s.lost.requests for s in found),
            tokens=_counts(s.lost.tokens for s in found),
        ),
        ttft=_times(s.ttft for s in found),
        ttft_hits=_times(s.ttft_hits for s in found),
        ttft_misses=_times(s.ttft_misses for s in found),
        ttft_unknown=_times(s.ttft_unknown for s in found),
        e2e=_times(s.e2e for s in found),
    )


def _tokens(sums: Iterable[TokenSum]) -> TokenSum:
    def plus(one: TokenSum, other: TokenSum) -> TokenSum:
        return TokenSum(
            tokens=one.tokens + other.tokens,
            known_requests=one.known_requests + other.known_requests,
            unknown_requests=one.unknown_requests + other.unknown_requests,
        )

    return reduce(plus, sums)


def _accounted(sums: Sequence[Accounted]) -> Accounted:
    return Accounted(
        requests=sum(s.requests for s in sums),
        prompt_tokens=sum(s.prompt_tokens for s in sums),
        ideal_tokens=sum(s.ideal_tokens for s in sums),
        cached_tokens=sum(s.cached_tokens for s in sums),
        new_tokens=sum(s.new_tokens for s in sums),
    )


def _foretold(sums: Sequence[Foretold]) -> Foretold:
    return Foretold(
        requests=sum(s.requests for s in sums),
        exact=sum(s.exact for s in sums),
        predicted_tokens=sum(s.predicted_tokens for s in sums),
        cached_tokens=sum(s.cached_tokens for s in sums),
    )


def _counts(found: Iterable[Mapping[str, int]]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for part in found:
        for name, number in part.items():
            counts[name] = counts.get(name, 0) + number
    return counts


def _times(found: Iterable[Percentiles]) -> Percentiles:
    histogram = sum((part.histogram or Histogram() for part in found), Histogram())
    p50_s, p90_s, p99_s = (histogram.quantile_s(percent) for percent in (50, 90, 99))
    return Percentiles(
        requests=histogram.requests, p50_s=p50_s, p90_s=p90_s, p99_s=p99_s, histogram=histogram
    )
