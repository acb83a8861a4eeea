"""Counters and histograms as plain numbers, written out in Prometheus's text format.

The event loop alone moves them, so that none needs a lock: adding costs a tenth of a microsecond
where a client library's counter takes a few. A scrape may read them from another thread.
"""

import math
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

_ESCAPES = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n"})

OTHER = "other"


class Distinct:
    """The first so many values of a label; every later one is `other`, so that series are bounded.

    Args:
        most: how many values get series of their own.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._known: dict[str, str] = {}

    def label(self, value: str) -> str:
        """`value`, or `other`."""
        known = self._known.get(value)
        if known is not None:
            return known
        if len(self._known) >= self._most:
            return OTHER
        self._known[value] = value
        return value


class Counts:
    """A counter for each combination of labels."""

    def __init__(self, name: str, about: str, labels: Sequence[str] = ()) -> None:
        self.name, self.about, self.labels = name, about, tuple(labels)
        self.values: defaultdict[tuple[str, ...], float] = defaultdict(float)
        self._named: dict[tuple[str, ...], str] = {}
        if not labels:
            self.values[()] = 0.0  # there from the start, so that a rate can be taken

    def lines(self) -> Iterator[str]:
        """In text format."""
        yield from _head(self.name, self.about, "counter")
        for values, count in list(self.values.items()):
            named = self._named.get(values)
            if named is None:
                named = self._named[values] = f"{self.name}{_labelled(self.labels, values)} "
            yield named + _number(count)


class Buckets:
    """How often a figure was within each bound, and their sum.

    Args:
        bounds: upper bounds, ascending; a bound belongs to its bucket.
    """

    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    def observe(self, value: float) -> None:
        """Count one figure."""
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value

    def observe_burst(self, value: float, count: int) -> None:
        """Count one figure, and a zero for all but one of `count`."""
        self.counts[bisect_left(self.bounds, value)] += 1
        self.counts[bisect_left(self.bounds, 0.0)] += count - 1
        self.total += value

    def observe_all(self, values: Iterable[float]) -> None:
        """Count several."""
        counts, bounds = self.counts, self.bounds
        for value in values:
            counts[bisect_left(bounds, value)] += 1
            self.total += value


class Histogram:
    """Buckets for each combination of labels."""

    def __init__(
        self, name: str, about: str, labels: Sequence[str] = (), *, bounds: Sequence[float]
    ) -> None:
        self.name, self.about, self.labels, self.bounds = name, about, tuple(labels), tuple(bounds)
        self._series: dict[tuple[str, ...], Buckets] = {}

    def of(self, values: tuple[str, ...]) -> Buckets:
        """The buckets of one combination of labels."""
        buckets = self._series.get(values)
        if buckets is None:
            buckets = self._series[values] = Buckets(self.bounds)
        return buckets

    def lines(self) -> Iterator[str]:
        """In text format."""
        yield from _head(self.name, self.about, "histogram")
        named, bounds = (*self.labels, "le"), [*(f"{bound:g}" for bound in self.bounds), "+Inf"]
        for values, buckets in list(self._series.items()):
            so_far, total = 0, buckets.total
            for bound, count in zip(bounds, list(buckets.counts), strict=True):
                so_far += count
                yield f"{self.name}_bucket{_labelled(named, (*values, bound))} {so_far}"
            labelled = _labelled(self.labels, values)
            yield f"{self.name}_sum{labelled} {_number(total)}"
            yield f"{self.name}_count{labelled} {so_far}"


class Gauge:
    """A level that is read when it is asked for; what is not known (None) is left out."""

    def __init__(self, name: str, about: str, labels: Sequence[str] = ()) -> None:
        self.name, self.about, self.labels = name, about, tuple(labels)

    def lines(self, values: Mapping[tuple[str, ...], float | None]) -> Iterator[str]:
        """In text format."""
        yield from _head(self.name, self.about, "gauge")
        for labels, value in values.items():
            if value is not None:
                yield f"{self.name}{_labelled(self.labels, labels)} {_number(value)}"


def page(lines: Iterable[str]) -> bytes:
    """Lines as a page."""
    return ("\n".join(lines) + "\n").encode("utf-8", "replace")


def _head(name: str, about: str, kind: str) -> Iterator[str]:
    yield f"# HELP {name} {about}"
    yield f"# TYPE {name} {kind}"


def _labelled(names: tuple[str, ...], values: tuple[str, ...]) -> str:
    if not names:
        return ""
    pairs = [
        f'{name}="{value.translate(_ESCAPES)}"' for name, value in zip(names, values, strict=True)
    ]
    return "{" + ",".join(pairs) + "}"


def _number(value: float) -> str:
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    return repr(float(value))
