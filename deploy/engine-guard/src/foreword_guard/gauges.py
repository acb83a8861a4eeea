"""The breaker in the engine's own /metrics, next to SGLang's counters.

    foreword_tier_open                  1 while the breaker is open
    foreword_tier_failures_total        calls to the tier that failed or were late
    foreword_tier_registrations_total   times that the engine registered again
    foreword_tier_held_loads            late loads whose KV pages are held back

SGLang decides between single- and multi-process metrics by an environment variable that it sets
late (sglang/srt/observability/metrics_collector.py:343, 0.5.23), so prometheus_client is imported
when the cache is made and not before.
"""

import threading
from typing import Any


class TierGauges:
    """Makes and sets the metrics of one engine process."""

    def __init__(self) -> None:
        from prometheus_client import Counter, Gauge

        self._open: Any = Gauge(
            "foreword_tier_open", "1 while the tier is skipped", multiprocess_mode="livemax"
        )
        self._failures: Any = Counter(
            "foreword_tier_failures", "Tier calls that failed or were late"
        )
        self._registrations: Any = Counter(
            "foreword_tier_registrations", "Registrations after a tier restart"
        )
        self._held: Any = Gauge(
            "foreword_tier_held_loads",
            "Late loads whose KV pages are held back",
            multiprocess_mode="livemax",
        )
        self._lock = threading.Lock()
        self._counted_failures = 0
        self._open.set(0)
        self._held.set(0)

    def show(self, *, is_open: bool, failures_total: int, held_loads: int) -> None:
        """Bring the metrics up to date; from any thread."""
        with self._lock:
            self._open.set(int(is_open))
            self._held.set(held_loads)
            if failures_total > self._counted_failures:
                self._failures.inc(failures_total - self._counted_failures)
                self._counted_failures = failures_total

    def registered(self) -> None:
        """Count one registration."""
        self._registrations.inc()
