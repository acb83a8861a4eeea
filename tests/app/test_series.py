"""Counters and histograms as Prometheus's own parser reads them."""

from collections.abc import Mapping

import pytest
from prometheus_client.parser import text_string_to_metric_families

from app.series import OTHER, Counts, Distinct, Gauge, Histogram, page


def samples(lines: bytes) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    """By name and labels."""
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(lines.decode())
        for sample in family.samples
    }


def of(name: str, **labels: str) -> tuple[str, frozenset[tuple[str, str]]]:
    return name, frozenset(labels.items())


def test_a_counter_is_read_back() -> None:
    counts = Counts("x_total", "What", ("a", "b"))
    counts.values["1", 'quo"te\\ and\nline'] += 2
    counts.values["2", "é"] += 1e12
    read = samples(page(counts.lines()))
    assert read == {
        of("x_total", a="1", b='quo"te\\ and\nline'): 2,
        of("x_total", a="2", b="é"): 1e12,
    }


def test_a_counter_without_labels_is_there_before_it_counts() -> None:
    assert samples(page(Counts("x_total", "What").lines())) == {of("x_total"): 0}


def test_a_histogram_is_read_back_and_a_bound_belongs_to_its_bucket() -> None:
    histogram = Histogram("x", "What", ("a",), bounds=(0.1, 1))
    for value in (0.05, 0.1, 0.5, 7):
        histogram.of(("1",)).observe(value)
    read = samples(page(histogram.lines()))
    assert read[of("x_bucket", a="1", le="0.1")] == 2
    assert read[of("x_bucket", a="1", le="1")] == 3
    assert read[of("x_bucket", a="1", le="+Inf")] == read[of("x_count", a="1")] == 4
    assert read[of("x_sum", a="1")] == pytest.approx(7.65)


def test_what_is_not_known_is_no_sample() -> None:
    values: Mapping[tuple[str, ...], float | None] = {("a",): None, ("b",): 0, ("c",): float("inf")}
    read = samples(page(Gauge("x", "What", ("replica",)).lines(values)))
    assert read == {of("x", replica="b"): 0, of("x", replica="c"): float("inf")}


def test_values_past_the_bound_are_other() -> None:
    distinct = Distinct(2)
    assert [distinct.label(value) for value in "abcab"] == ["a", "b", OTHER, "a", "b"]
