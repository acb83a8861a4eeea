"""`docs/metrics.md`: every metric of the gateway, from what it counts."""

from collections.abc import Iterator

from app.levels import LEVELS
from app.metrics import Metrics
from app.series import Counts, Gauge, Histogram

_HEAD = """\
# Metrics

Made by `python -m app.references`; don't edit. `GET /metrics` has them in Prometheus's text
format, and `process_…` and `python_…`. [observability.md](observability.md#metrics) says what to
look at, [dashboards.md](dashboards.md) what draws them.

| metric | kind | labels | what |
|---|---|---|---|
"""


def metrics_page() -> str:
    """The whole page."""
    return _HEAD + "\n".join(_rows()) + "\n"


def _rows() -> Iterator[str]:
    for family in sorted((*Metrics().families, *LEVELS), key=lambda family: family.name):
        labels = ", ".join(f"`{label}`" for label in family.labels)
        yield f"| `{family.name}` | {_kind(family)} | {labels} | {family.about} |"


def _kind(family: Counts | Histogram | Gauge) -> str:
    match family:
        case Counts():
            return "counter"
        case Histogram():
            return "histogram"
        case Gauge():
            return "gauge"
