"""Each tenant's limits, as this gateway alone sees them. Pure; time is given."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from app.admission.buckets import Bucket
from app.callers import TenantLimits
from app.errors import RateLimitError

REQUESTS, TOKENS = "requests per minute", "tokens per minute"
CONCURRENT, DAY = "requests at a time", "tokens per day"
# As long as an answer may take: nobody knows when one of the others ends.
_CONCURRENT_WAIT_S = 1.0


class Use(Protocol):
    """What tenants used today."""

    def add(self, tenant: str, tokens: int) -> None:
        """It used so many."""

    def of(self, tenant: str) -> int:
        """Tokens of today."""

    def until_midnight_s(self) -> float:
        """Seconds until it is none again."""


@dataclass(slots=True)
class _Meter:
    """One tenant's counts. `pending` are tokens that requests under way may still take.

    `sized_for` are the limits that the buckets are as large as.
    """

    requests: Bucket | None = None
    tokens: Bucket | None = None
    concurrent: int = 0
    pending: int = 0
    sized_for: TenantLimits | None = None


class Limiter:
    """Counts what tenants use, and refuses what is beyond their limits."""

    def __init__(self, use: Use, *, now: Callable[[], float]) -> None:
        self._use = use
        self._now = now
        self._meters: dict[str, _Meter] = {}

    def enter(self, tenant: str, limits: TenantLimits, tokens: int) -> None:
        """A request begins, which may take so many tokens; without any, no limit of tokens holds.

        Raises:
            RateLimitError: it is beyond a limit, and counts for none.
        """
        meter, now = self._meters.get(tenant), self._now()
        if meter is None or meter.sized_for is not limits:
            meter = self._meter(tenant, limits)
        if limits.concurrent is not None and meter.concurrent >= limits.concurrent:
            raise self.refused(CONCURRENT, tenant, limits, _CONCURRENT_WAIT_S)
        if tokens and limits.tokens_per_day is not None:
            used = self._use.of(tenant) + meter.pending
            if used + tokens > limits.tokens_per_day:
                wait_s = self._use.until_midnight_s()
                raise self.refused(DAY, tenant, limits, wait_s, requested=tokens)
        wait = meter.requests.take(1, now) if meter.requests else None
        if wait is not None:
            raise self.refused(REQUESTS, tenant, limits, wait)
        wait = meter.tokens.take(tokens, now) if tokens and meter.tokens else None
        if wait is not None:
            if meter.requests:
                meter.requests.correct(-1, now)
            raise self.refused(TOKENS, tenant, limits, wait, requested=tokens)
        meter.concurrent += 1
        meter.pending += tokens

    def leave(self, tenant: str, limits: TenantLimits, tokens: int, used: int) -> None:
        """A request ends, which was taken for `tokens` and used `used`."""
        meter = self._meters.get(tenant)
        if meter is None or meter.sized_for is not limits:
            meter = self._meter(tenant, limits)
        meter.concurrent -= 1
        meter.pending -= tokens
        if meter.tokens and used != tokens:
            meter.tokens.correct(used - tokens, self._now())
        self._use.add(tenant, used)

    def undo(self, tenant: str, limits: TenantLimits, tokens: int) -> None:
        """A request that had begun is refused after all, and counts for nothing."""
        self.leave(tenant, limits, tokens, 0)
        meter = self._meter(tenant, limits)
        if meter.requests:
            meter.requests.correct(-1, self._now())

    def concurrent(self, tenant: str) -> int:
        """Requests of a tenant that are under way here."""
        meter = self._meters.get(tenant)
        return 0 if meter is None else meter.concurrent

    def refused(
        self,
        what: str,
        tenant: str,
        limits: TenantLimits,
        wait_s: float,
        *,
        requested: int | None = None,
    ) -> RateLimitError:
        """The error for a limit that is reached; what can never pass has no time to try again."""
        limit = limit_of(what, limits)
        retry = wait_s if math.isfinite(wait_s) else None
        headers = self.headers(tenant, limits)
        return RateLimitError(what, limit, retry, requested=requested, headers=headers)

    def headers(self, tenant: str, limits: TenantLimits) -> dict[str, str]:
        """How the tenant stands with its limits by the minute, in OpenAI's headers."""
        if limits.requests_per_min is None and limits.tokens_per_min is None:
            return {}
        meter, now = self._meter(tenant, limits), self._now()
        headers: dict[str, str] = {}
        for kind, bucket in (("requests", meter.requests), ("tokens", meter.tokens)):
            if bucket is not None:
                headers[f"x-ratelimit-limit-{kind}"] = str(bucket.limit)
                headers[f"x-ratelimit-remaining-{kind}"] = str(bucket.remaining(now))
                headers[f"x-ratelimit-reset-{kind}"] = _duration(bucket.full_in_s())
        return headers

    def _meter(self, tenant: str, limits: TenantLimits) -> _Meter:
        meter = self._meters.get(tenant)
        if meter is None:
            meter = self._meters[tenant] = _Meter()
        if meter.sized_for is limits:
            return meter
        meter.sized_for = limits
        meter.requests = self._sized(meter.requests, limits.requests_per_min)
        meter.tokens = self._sized(meter.tokens, limits.tokens_per_min)
        return meter

    def _sized(self, bucket: Bucket | None, limit: int | None) -> Bucket | None:
        """The bucket as the limit is now; an operator may have changed it."""
        if limit is None:
            return None
        if bucket is None:
            return Bucket(limit=limit, at=self._now())
        if bucket.limit != limit:
            bucket.resize(limit, self._now())
        return bucket


def limit_of(what: str, limits: TenantLimits) -> int:
    """The figure of a limit."""
    figures = {
        REQUESTS: limits.requests_per_min,
        TOKENS: limits.tokens_per_min,
        CONCURRENT: limits.concurrent,
        DAY: limits.tokens_per_day,
    }
    return figures[what] or 0


def _duration(seconds: float) -> str:
    """As OpenAI writes it: `12ms`, `1.5s`, `6m0s`."""
    if seconds < 1:
        return f"{math.ceil(seconds * 1000)}ms"
    if seconds < 60:
        return f"{math.ceil(seconds * 10) / 10:g}s"
    minutes, rest = divmod(math.ceil(seconds), 60)
    return f"{minutes}m{rest}s"
