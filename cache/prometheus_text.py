"""The part of Prometheus' text format that the engine's and the tier's counters need."""

import math
from collections.abc import Iterator

from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from cache.errors import MetricsFormatError


def read_samples(
    text: str, *, names: tuple[str, ...], source: str, marker: str
) -> dict[str, list[Sample]]:
    """The samples of the named metrics. Only their lines are parsed: a page has thousands."""
    if not any(line.startswith(marker) for line in text.splitlines()):
        raise MetricsFormatError(source=source, reason=f"no line begins with {marker!r}")
    lines = "".join(f"{line}\n" for line in text.splitlines() if line.startswith(names))
    found: dict[str, list[Sample]] = {name: [] for name in names}
    for sample in _parsed(lines, source=source):
        if sample.name in found:
            found[sample.name].append(sample)
    return found


def _parsed(lines: str, *, source: str) -> Iterator[Sample]:
    try:
        for family in text_string_to_metric_families(lines):
            yield from family.samples
    except (ValueError, IndexError) as exc:
        raise MetricsFormatError(source=source, reason=str(exc)) from exc


def whole_number(sample: Sample, *, source: str) -> int:
    if not math.isfinite(sample.value) or sample.value < 0:
        reason = f"{sample.name} is {sample.value}, which is no count"
        raise MetricsFormatError(source=source, reason=reason)
    return round(sample.value)
