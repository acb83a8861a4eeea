"""Prometheus metrics, and the one function that moves them for a request."""

from collections.abc import Mapping

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from cache.rows import LedgerRow

_SECONDS = (0.05, 0.1, 0.2, 0.3, 0.5, 0.75, 1, 1.5, 2, 3, 5, 7.5, 10, 15, 30, 60, 120, 300)
_MAX_TENANTS = 200
_OTHER = "other"
_LEVELS = {
    "ledger_dropped_rows": "Ledger rows lost",
    "accounting_errors": "Faults of accounting since the start; the requests went on",
    "kv_event_batches": "Batches of KV events that were taken",
    "kv_event_gaps": "Times that KV events were lost and could not be asked for again",
    "index_pages": "Pages in the prefix index",
    "kv_deletions_pending": "Deleted salts whose keys are still to be destroyed in the tiers",
    "corpora": "Collections that were used as a whole lately",
    "corpora_resident": "Those of them that the engine holds whole",
    "corpus_tokens": "Tokens of their prefixes",
    "corpus_resident_tokens": "Those of them that the engine is known to hold",
    "corpus_warmings": "Warmings that ran to their end since the start",
    "corpus_warmings_failed": "Warmings after which the corpus was not resident",
    "corpus_warm_computed_tokens": "Tokens that warmings had computed; in no request's count",
    "corpus_warm_loaded_tokens": "Tokens that warmings loaded from the tiers",
    "corpus_warm_seconds": "Seconds that warmings took",
}


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
        self._ideal = self._counter(
            "ideal_tokens", "Prompt tokens that could have been re-used", labels
        )
        self._lost = self._counter(
            "lost_tokens", "Prompt tokens computed again, by the reason", (*labels, "verdict")
        )
        self._unknown = self._counter(
            "unknown_cached_requests", "Requests whose re-use the engine didn't report", labels
        )
        self._decisions = self._counter("decisions", "Requests by mode", ("mode",))
        self._ttft = self._histogram("ttft_seconds", "Arrival to first content", labels)
        self._e2e = self._histogram("e2e_seconds", "Arrival to last byte", labels)
        self.in_flight = self._gauge("in_flight_requests", "Requests being answered")
        self._levels = {name: self._gauge(name, about) for name, about in _LEVELS.items()}

    def finished(self, row: LedgerRow) -> None:
        """Count one finished request."""
        labels = (row.template, self._tenant(row.tenant))
        self._requests.labels(*labels, row.status.value).inc()
        if row.prompt_tokens is not None:
            self._prompt.labels(*labels).inc(row.prompt_tokens)
        if row.cached_tokens is None:
            self._unknown.labels(*labels).inc()
        if row.ideal_tokens is not None:
            self._ideal.labels(*labels).inc(row.ideal_tokens)
        for verdict, lost in (row.lost or {}).items():
            self._lost.labels(*labels, verdict).inc(lost)
        for tier, tokens in _tiers(row):
            if tokens:
                self._cached.labels(*labels, tier).inc(tokens)
        if row.mode is not None:
            self._decisions.labels(row.mode).inc()
        if row.ttft_s is not None:
            self._ttft.labels(*labels).observe(row.ttft_s)
        if row.e2e_s is not None:
            self._e2e.labels(*labels).observe(row.e2e_s)

    def text(self, levels: Mapping[str, float]) -> bytes:
        """Everything, in Prometheus's text format; `levels` are what is counted elsewhere."""
        for name, level in levels.items():
            self._levels[name].set(level)
        return generate_latest(self.registry)

    def _tenant(self, tenant: str) -> str:
        """The tenant as a label; past a bound, `other`, so that series can't grow for ever."""
        if tenant not in self._tenants and len(self._tenants) >= _MAX_TENANTS:
            return _OTHER
        self._tenants.add(tenant)
        return tenant

    def _counter(self, name: str, about: str, labels: tuple[str, ...]) -> Counter:
        return Counter(f"foreword_{name}_total", about, labels, registry=self.registry)

    def _gauge(self, name: str, about: str) -> Gauge:
        return Gauge(f"foreword_{name}", about, registry=self.registry)

    def _histogram(self, name: str, about: str, labels: tuple[str, ...]) -> Histogram:
        return Histogram(
            f"foreword_{name}", about, labels, registry=self.registry, buckets=_SECONDS
        )


def _tiers(row: LedgerRow) -> tuple[tuple[str, int | None], ...]:
    """By tier; `storage` and `unknown` are what can't be told apart, so that the sum is right."""
    below = (row.cached_ram, row.cached_ssd, row.cached_redis)
    split = None not in below
    known = row.cached_gpu is not None and row.cached_storage is not None
    return (
        ("gpu", row.cached_gpu if known else None),
        ("ram", row.cached_ram if known and split else None),
        ("ssd", row.cached_ssd if known and split else None),
        ("redis", row.cached_redis if known and split else None),
        ("storage", row.cached_storage if known and not split else None),
        ("unknown", None if known else row.cached_tokens),
    )
