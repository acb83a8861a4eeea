"""The guard's gauges in the engine's Prometheus text: is the tier being skipped? Pure."""

from dataclasses import dataclass

from cache.prometheus_text import read_samples, whole_number

_OPEN = "foreword_tier_open"
_FAILURES = "foreword_tier_failures_total"
_HELD = "foreword_tier_held_loads"


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardStatus:
    """The guard's breaker; `None` is an engine that runs without the guard, or without tiers.

    Source: deploy/engine-guard/src/foreword_guard/gauges.py.
    """

    tier_open: bool | None = None
    failures: int | None = None
    held_loads: int | None = None


def parse_guard_metrics(text: str) -> GuardStatus:
    """The guard's part of SGLang's `/metrics`.

    Raises:
        MetricsFormatError: the text isn't Prometheus' format or isn't SGLang's page.
    """
    samples = read_samples(text, names=(_OPEN, _FAILURES, _HELD), source="SGLang", marker="sglang:")

    def total(name: str) -> int | None:
        found = samples[name]
        return sum(whole_number(sample, source="SGLang") for sample in found) if found else None

    tier_open = total(_OPEN)
    return GuardStatus(
        tier_open=None if tier_open is None else tier_open > 0,
        failures=total(_FAILURES),
        held_loads=total(_HELD),
    )
