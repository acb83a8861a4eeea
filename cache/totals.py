"""What a summary holds, and how it is made of sums. Pure; a figure that isn't known is never 0."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from cache.figures import REASONS, TIMES, VERDICTS
from cache.histograms import Histogram
from cache.sums import Sums


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenSum:
    """A sum over the requests whose figure is known, and how many of either kind there were."""

    tokens: int
    known_requests: int
    unknown_requests: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TierSums:
    """Cached tokens by tier; `storage` is RAM, SSD and Redis, also where they aren't told apart."""

    gpu: TokenSum
    ram: TokenSum
    ssd: TokenSum
    redis: TokenSum
    storage: TokenSum


@dataclass(frozen=True, slots=True, kw_only=True)
class HitRate:
    """Cached over prompt tokens, over the `requests` for which both are known."""

    cached_tokens: int
    prompt_tokens: int
    requests: int

    @property
    def rate(self) -> float | None:
        """In 0 … 1; None where no prompt token is known."""
        return self.cached_tokens / self.prompt_tokens if self.prompt_tokens else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Accounted:
    """Sums over the `requests` whose prompt, ideal, cached, new and lost tokens are all known."""

    requests: int = 0
    prompt_tokens: int = 0
    ideal_tokens: int = 0
    cached_tokens: int = 0
    new_tokens: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Foretold:
    """Predicted against reported re-use, over the `requests` for which both are known.

    `exact` is how many of them were predicted to the token.
    """

    requests: int = 0
    exact: int = 0
    predicted_tokens: int = 0
    cached_tokens: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Lost:
    """Lost tokens by verdict, only those above 0, over the `requests` whose losses are known."""

    requests: int = 0
    tokens: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Percentiles:
    """Nearest-rank percentiles in seconds over the `requests` whose time is known."""

    requests: int
    p50_s: float | None
    p90_s: float | None
    p99_s: float | None = None
    histogram: Histogram | None = None


_NO_TOKENS = TokenSum(tokens=0, known_requests=0, unknown_requests=0)
_NO_TIMES = Percentiles(requests=0, p50_s=None, p90_s=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """One group of requests, failed and aborted ones included.

    Attributes:
        verdicts: requests by verdict, only those above 0.
        ttft_hits: of requests that re-used something; `ttft_misses`: nothing; `ttft_unknown`: not
            known. `ttft` is of all three together.
    """

    group: Mapping[str, str | None]
    requests: int
    errors: int
    aborted: int
    prompt: TokenSum
    completion: TokenSum
    cached: TokenSum
    by_tier: TierSums
    hit: HitRate
    ttft: Percentiles
    ideal: TokenSum = _NO_TOKENS
    predicted: TokenSum = _NO_TOKENS
    new: TokenSum = _NO_TOKENS
    accounted: Accounted = Accounted()
    foretold: Foretold = Foretold()
    verdicts: Mapping[str, int] = field(default_factory=dict)
    lost: Lost = Lost()
    ttft_hits: Percentiles = _NO_TIMES
    ttft_misses: Percentiles = _NO_TIMES
    ttft_unknown: Percentiles = _NO_TIMES
    e2e: Percentiles = _NO_TIMES

    @property
    def unjudged(self) -> int:
        """Requests without a verdict."""
        return self.requests - sum(self.verdicts.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """One group of requests in the hour (day) from `start` on, as far as it lies in the window."""

    start: datetime
    summary: Summary


def summary_of(by: Sequence[str], labels: Sequence[str | None], sums: Sums) -> Summary:
    """The summary of one group from its sums."""
    figures = sums.figures
    hits, misses, unknown, e2e = (sums.times[kind] for kind in TIMES)

    def tokens(name: str) -> TokenSum:
        known = figures[f"{name}_known"]
        return TokenSum(
            tokens=figures[f"{name}_tokens"],
            known_requests=known,
            unknown_requests=figures["requests"] - known,
        )

    def several(prefix: str, *names: str) -> dict[str, int]:
        return {name: figures[f"{prefix}_{name.removesuffix('_tokens')}"] for name in names}

    return Summary(
        group=dict(zip(by, labels, strict=True)),
        requests=figures["requests"],
        errors=figures["errors"],
        aborted=figures["aborted"],
        prompt=tokens("prompt"),
        completion=tokens("completion"),
        cached=tokens("cached"),
        ideal=tokens("ideal"),
        predicted=tokens("predicted"),
        new=tokens("new"),
        by_tier=TierSums(
            **{name: tokens(name) for name in ("gpu", "ram", "ssd", "redis", "storage")}
        ),
        hit=HitRate(**several("hit", "requests", "cached_tokens", "prompt_tokens")),
        accounted=Accounted(
            **several(
                "accounted",
                *("requests", "prompt_tokens", "ideal_tokens", "cached_tokens", "new_tokens"),
            )
        ),
        foretold=Foretold(
            **several("foretold", "requests", "exact", "predicted_tokens", "cached_tokens")
        ),
        verdicts=_above_zero(figures, "verdict", VERDICTS),
        lost=Lost(requests=figures["lost_requests"], tokens=_above_zero(figures, "lost", REASONS)),
        ttft=_percentiles(hits + misses + unknown),
        ttft_hits=_percentiles(hits),
        ttft_misses=_percentiles(misses),
        ttft_unknown=_percentiles(unknown),
        e2e=_percentiles(e2e),
    )


def _above_zero(figures: Mapping[str, int], prefix: str, names: Sequence[str]) -> Mapping[str, int]:
    found = {name: figures[f"{prefix}_{name}"] for name in names}
    return {name: figure for name, figure in found.items() if figure}


def _percentiles(histogram: Histogram) -> Percentiles:
    p50_s, p90_s, p99_s = histogram.quantiles_s((50, 90, 99))
    return Percentiles(
        requests=histogram.requests, p50_s=p50_s, p90_s=p90_s, p99_s=p99_s, histogram=histogram
    )
