"""SGLang's own counters, read from its Prometheus text into typed snapshots and their differences.

Pure: text in, values out; fetching is the caller's. SGLang counts cached prompt tokens by source
and by the labels that the gateway sends with a request, which makes them the second opinion on the
ledger.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum

from prometheus_client.samples import Sample

from cache.errors import MetricsFormatError
from cache.prometheus_text import read_samples, whole_number


class CacheSource(StrEnum):
    """SGLang's own words for where cached tokens came from.

    Source: sglang 0.5.23, srt/observability/metrics_collector.py `observe_one_finished_request`.
    """

    DEVICE = "device"
    HOST = "host"
    STORAGE = "storage"
    TOTAL = "total"
    """The engine knew the number but not its split; not a sum of the others."""


_SeriesKey = tuple[str | None, str | None, CacheSource]  # template, tenant, source


@dataclass(frozen=True, slots=True, kw_only=True)
class CachedTokens:
    """Cached prompt tokens of one series; `None` labels are traffic that carried none."""

    template: str | None
    tenant: str | None
    source: CacheSource
    tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineSnapshot:
    """SGLang's counters at one moment, summed over every label that isn't named here.

    `boot` differs between two starts of the engine; None where the page doesn't tell.
    """

    at: datetime
    cached: tuple[CachedTokens, ...]
    prompt_tokens: int
    requests: int
    boot: tuple[tuple[str, float], ...] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineDelta:
    """What SGLang counted between `since` and `until`.

    With `resets` > 0 the engine started anew in between: what it counted after the last snapshot
    before each restart is lost, so the figures are lower bounds.
    """

    since: datetime
    until: datetime
    cached: tuple[CachedTokens, ...]
    prompt_tokens: int
    requests: int
    resets: int


def parse_engine_metrics(text: str, *, at: datetime) -> EngineSnapshot:
    """SGLang's `/metrics` text as a snapshot.

    A labelled counter has no line before its first count, so on a page that is SGLang's an absent
    `cached_tokens_total` is a true 0.

    Raises:
        MetricsFormatError: the text isn't Prometheus' format, isn't SGLang's page, or a counter in
            it is no count.
    """
    samples = read_samples(text, names=_NAMES, source="SGLang", marker="sglang:")
    cached: defaultdict[_SeriesKey, int] = defaultdict(int)
    for sample in samples["sglang:cached_tokens_total"]:
        key = (*_labels(sample), _source(sample))
        cached[key] += whole_number(sample, source="SGLang")
    return EngineSnapshot(
        at=at,
        cached=_series(cached),
        prompt_tokens=sum(
            whole_number(sample, source="SGLang")
            for sample in samples["sglang:prompt_tokens_total"]
        ),
        requests=sum(
            whole_number(sample, source="SGLang") for sample in samples["sglang:num_requests_total"]
        ),
        boot=tuple(sorted((s.labels.get("phase", ""), s.value) for s in samples[_STARTUP])) or None,
    )


def delta(before: EngineSnapshot, after: EngineSnapshot) -> EngineDelta:
    """What was counted between two snapshots of one engine.

    A restart shows as another `boot`, or as any counter that is lower or gone; then everything in
    `after` was counted since the restart.
    """
    old = {_key(series): series.tokens for series in before.cached}
    new = {_key(series): series.tokens for series in after.cached}
    restarted = _restarted(before, after, old, new)
    if restarted:
        old = {}
    grown = {key: tokens - old.get(key, 0) for key, tokens in new.items()}
    return EngineDelta(
        since=before.at,
        until=after.at,
        cached=_series({key: tokens for key, tokens in grown.items() if tokens}),
        prompt_tokens=after.prompt_tokens - (0 if restarted else before.prompt_tokens),
        requests=after.requests - (0 if restarted else before.requests),
        resets=int(restarted),
    )


def combine(deltas: Iterable[EngineDelta]) -> EngineDelta:
    """One delta for several: of replicas side by side, or of one engine's successive intervals.

    Raises:
        ValueError: there are none.
    """
    parts = list(deltas)
    if not parts:
        raise ValueError("combine() needs at least one delta")
    cached: defaultdict[_SeriesKey, int] = defaultdict(int)
    for part in parts:
        for series in part.cached:
            cached[_key(series)] += series.tokens
    return EngineDelta(
        since=min(part.since for part in parts),
        until=max(part.until for part in parts),
        cached=_series(cached),
        prompt_tokens=sum(part.prompt_tokens for part in parts),
        requests=sum(part.requests for part in parts),
        resets=sum(part.resets for part in parts),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class CounterTrack:
    """Totals of one engine since a first snapshot, carried across its restarts.

    Advance it from time to time: what an engine counts between the last snapshot and its end is
    lost, so the interval bounds the loss.
    """

    last: EngineSnapshot
    total: EngineDelta

    @classmethod
    def start(cls, snapshot: EngineSnapshot) -> "CounterTrack":
        """A track that begins at `snapshot`, whatever its counters already say."""
        return cls(last=snapshot, total=replace(delta(snapshot, snapshot), resets=0))

    def advance(self, snapshot: EngineSnapshot) -> "CounterTrack":
        """The track up to a later snapshot."""
        return CounterTrack(last=snapshot, total=combine([self.total, delta(self.last, snapshot)]))


_STARTUP = "sglang:startup_time_seconds"
_NAMES = (
    "sglang:cached_tokens_total",
    "sglang:prompt_tokens_total",
    "sglang:num_requests_total",
    _STARTUP,
)


def _labels(sample: Sample) -> tuple[str | None, str | None]:
    """Template and tenant; SGLang writes an empty label for a request that came without."""
    return sample.labels.get("template") or None, sample.labels.get("tenant") or None


def _source(sample: Sample) -> CacheSource:
    name = sample.labels.get("cache_source", "")
    try:
        return CacheSource(name)
    except ValueError as exc:
        reason = f"cache_source {name!r} is not one that SGLang 0.5.23 writes"
        raise MetricsFormatError(source="SGLang", reason=reason) from exc


def _series(
    cached: Mapping[_SeriesKey, int],
) -> tuple[CachedTokens, ...]:
    ordered = sorted(cached, key=lambda key: (key[0] or "", key[1] or "", key[2]))
    return tuple(
        CachedTokens(template=key[0], tenant=key[1], source=key[2], tokens=cached[key])
        for key in ordered
    )


def _key(series: CachedTokens) -> _SeriesKey:
    return series.template, series.tenant, series.source


def _restarted(
    before: EngineSnapshot,
    after: EngineSnapshot,
    old: Mapping[_SeriesKey, int],
    new: Mapping[_SeriesKey, int],
) -> bool:
    if before.boot is not None and after.boot is not None and before.boot != after.boot:
        return True
    if after.prompt_tokens < before.prompt_tokens or after.requests < before.requests:
        return True
    return any(new.get(key, 0) < tokens for key, tokens in old.items())
