"""Prometheus metrics, and the one function that moves them for a request."""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from cache.rows import LedgerRow

_SECONDS = (0.05, 0.1, 0.2, 0.3, 0.5, 0.75, 1, 1.5, 2, 3, 5, 7.5, 10, 15, 30, 60, 120, 300)
_MAX_TENANTS = 200
_OTHER = "other"


class Metrics:
    """The gateway's counters, in a registry of their own."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._tenants: set[str] = set()
        labels = ("template", "tenant")
        self._requests = self._counter("requests", "Requests by outcome", (*labels, "status"))
        self._prompt = self._counter("prompt_tokens", "Prompt tokens of finished requests", labels)
        self._cached = self._counter(
            "cached_tokens", "Prompt tokens re-used, by the tier they came from", (*labels, "tier")
        )
        self._unknown = self._counter(
            "unknown_cached_requests", "Requests whose re-use the engine didn't report", labels
        )
        self._decisions = self._counter("decisions", "Requests by mode", ("mode",))
        self._ttft = self._histogram("ttft_seconds", "Arrival to first content", labels)
        self._e2e = self._histogram("e2e_seconds", "Arrival to last byte", labels)
        self.in_flight = Gauge(
            "foreword_in_flight_requests", "Requests being answered", registry=self.registry
        )
        self._dropped = Gauge(
            "foreword_ledger_dropped_rows", "Ledger rows lost", registry=self.registry
        )

    def finished(self, row: LedgerRow) -> None:
        """Count one finished request."""
        labels = (row.template, self._tenant(row.tenant))
        self._requests.labels(*labels, row.status.value).inc()
        if row.prompt_tokens is not None:
            self._prompt.labels(*labels).inc(row.prompt_tokens)
        if row.cached_tokens is None:
            self._unknown.labels(*labels).inc()
        for tier, tokens in _tiers(row):
            if tokens is not None:
                self._cached.labels(*labels, tier).inc(tokens)
        if row.mode is not None:
            self._decisions.labels(row.mode).inc()
        if row.ttft_s is not None:
            self._ttft.labels(*labels).observe(row.ttft_s)
        if row.e2e_s is not None:
            self._e2e.labels(*labels).observe(row.e2e_s)

    def text(self, *, ledger_dropped: int) -> bytes:
        """Everything, in Prometheus's text format."""
        self._dropped.set(ledger_dropped)
        return generate_latest(self.registry)

    def _tenant(self, tenant: str) -> str:
        """The tenant as a label; past a bound, `other`, so that series can't grow for ever."""
        if tenant not in self._tenants and len(self._tenants) >= _MAX_TENANTS:
            return _OTHER
        self._tenants.add(tenant)
        return tenant

    def _counter(self, name: str, about: str, labels: tuple[str, ...]) -> Counter:
        return Counter(f"foreword_{name}_total", about, labels, registry=self.registry)

    def _histogram(self, name: str, about: str, labels: tuple[str, ...]) -> Histogram:
        return Histogram(
            f"foreword_{name}", about, labels, registry=self.registry, buckets=_SECONDS
        )


def _tiers(row: LedgerRow) -> tuple[tuple[str, int | None], ...]:
    """`storage` is the part of RAM, SSD and Redis together where they can't be told apart."""
    known_split = row.cached_ram is not None
    return (
        ("gpu", row.cached_gpu),
        ("ram", row.cached_ram),
        ("ssd", row.cached_ssd),
        ("redis", row.cached_redis),
        ("storage", None if known_split else row.cached_storage),
    )
