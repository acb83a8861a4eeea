"""LMCache's figures, read from the Prometheus text of `lmcache server`. Pure.

LMCache counts *look-ups*, also where the engine already held the tokens, so its hits are no count
of loads and are never added to a request's cached tokens.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from cache.prometheus_text import read_samples, whole_number


@dataclass(frozen=True, slots=True, kw_only=True)
class LmcacheSnapshot:
    """LMCache's figures at one moment; a figure that its page lacks is None.

    The look-up counters say what LMCache could have served, not what was loaded from it.

    Source: lmcache 0.5.6, v1/mp_observability/subscribers/metrics/lookup.py.
    """

    at: datetime
    lookup_requested_tokens: int | None
    lookup_hit_ram_tokens: int | None
    lookup_hit_l2_tokens: int | None
    ram_used_bytes: int | None
    ram_usage_ratio: float | None
    l2_used_bytes: Mapping[str, int]
    started_unix_s: float | None


def parse_lmcache_metrics(text: str, *, at: datetime) -> LmcacheSnapshot:
    """The `/metrics` text of `lmcache server` as a snapshot.

    Raises:
        MetricsFormatError: the text isn't Prometheus' format, isn't LMCache's page, or a figure in
            it is not a number.
    """
    samples = read_samples(text, names=_NAMES, source="LMCache", marker="lmcache_mp_")

    def total(name: str) -> int | None:
        found = samples[name]
        return sum(whole_number(sample, source="LMCache") for sample in found) if found else None

    ratios = [sample.value for sample in samples["lmcache_mp_l1_usage_ratio"]]
    starts = [sample.value for sample in samples["process_start_time_seconds"]]
    return LmcacheSnapshot(
        at=at,
        lookup_requested_tokens=total("lmcache_mp_lookup_requested_tokens_total"),
        lookup_hit_ram_tokens=total("lmcache_mp_lookup_hit_l1_tokens_total"),
        lookup_hit_l2_tokens=total("lmcache_mp_lookup_hit_l2_tokens_total"),
        ram_used_bytes=total("lmcache_mp_l1_memory_usage_bytes"),
        ram_usage_ratio=max(ratios, default=None),
        l2_used_bytes={
            sample.labels.get("l2_name", ""): whole_number(sample, source="LMCache")
            for sample in samples["lmcache_mp_l2_usage_bytes"]
        },
        started_unix_s=max(starts, default=None),
    )


_NAMES = (
    "lmcache_mp_lookup_requested_tokens_total",
    "lmcache_mp_lookup_hit_l1_tokens_total",
    "lmcache_mp_lookup_hit_l2_tokens_total",
    "lmcache_mp_l1_memory_usage_bytes",
    "lmcache_mp_l1_usage_ratio",
    "lmcache_mp_l2_usage_bytes",
    "process_start_time_seconds",
)
