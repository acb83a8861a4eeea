"""The rule that calls a soak flat, on made-up samples."""

import random
from dataclasses import replace

import pytest

from bench.soak.judge import judge, longest_life, theil_sen
from bench.soak.samples import Sample

SAMPLE = Sample(
    life=1,
    requests=0,
    overall=0,
    elapsed_s=0.0,
    requests_per_s=50.0,
    rss_kb=200_000,
    anonymous_kb=150_000,
    threads=12,
    descriptors=60,
    cpu_us=5000,
    ttft_ms=(1.0, 2.0),
    e2e_ms=(1.0, 2.0),
    added_ms=(1.0, 2.0),
    in_flight=0.0,
    index_pages=1000.0,
    accounting_errors=0.0,
    ledger_dropped=0.0,
    event_batches=1.0,
    event_gaps=0.0,
    ledger_rows=0,
    rollup_rows=0,
    ledger_kb=0,
    simulator_kb=0,
    load_average=1.0,
    statuses={},
)


def soak(*, slope_bytes: float, noise_kb: int = 0, samples: int = 40) -> list[Sample]:
    """A soak of 1,000 requests a sample whose memory grows by so much a request."""
    source = random.Random(1)
    return [
        replace(
            SAMPLE,
            requests=1000 * n,
            rss_kb=200_000
            + int(slope_bytes * 1000 * n / 1024)
            + source.randrange(-noise_kb, noise_kb + 1),
        )
        for n in range(1, samples + 1)
    ]


def test_noise_without_a_slope_is_flat() -> None:
    assert judge(soak(slope_bytes=0, noise_kb=500)).flat is True


def test_a_leak_of_more_than_a_percent_is_named_with_its_bytes_a_request() -> None:
    found = judge(soak(slope_bytes=200, noise_kb=500))
    assert found.flat is False
    assert found.bytes_per_request == pytest.approx(200, rel=0.2)
    assert found.after_million() == pytest.approx(200e6 / 2**20, rel=0.2)
    assert "resident memory grew" in found.problems[0]


def test_a_slope_too_small_for_the_run_is_still_told() -> None:
    found = judge(soak(slope_bytes=50))
    assert found.flat is True
    assert found.bytes_per_request == pytest.approx(50, rel=0.05)


def test_growth_that_comes_to_an_end_shows_in_the_last_quarter() -> None:
    samples = [replace(s, rss_kb=200_000 + min(s.requests, 30_000)) for s in soak(slope_bytes=0)]
    found = judge(samples)
    assert found.flat is False
    assert found.late_bytes_per_request == 0
    assert found.bytes_per_request is not None
    assert found.bytes_per_request > 0


def test_an_index_that_is_still_filling_is_not_judged() -> None:
    samples = [replace(s, index_pages=s.requests / 10) for s in soak(slope_bytes=0)]
    found = judge(samples)
    assert found.flat is None
    assert "from 2,000 to 4,000 pages" in found.problems[0]


def test_few_samples_are_not_judged() -> None:
    assert judge(soak(slope_bytes=0, samples=6)).flat is None
    assert judge([]).flat is None


@pytest.mark.parametrize("name", ["descriptors", "threads"])
def test_counts_that_only_rise_are_a_leak(name: str) -> None:
    samples = [replace(s, **{name: s.requests // 1000}) for s in soak(slope_bytes=0)]
    assert judge(samples).flat is False


def test_counts_that_come_and_go_are_none() -> None:
    samples = [replace(s, descriptors=60 + s.requests // 1000 % 5) for s in soak(slope_bytes=0)]
    assert judge(samples).flat is True


def test_requests_left_in_flight_are_a_leak() -> None:
    samples = soak(slope_bytes=0)
    samples[-1] = replace(samples[-1], in_flight=1.0)
    assert judge(samples).flat is False


def test_memory_is_judged_within_one_start_of_the_gateway() -> None:
    first = soak(slope_bytes=0)[:5]
    second = [replace(s, life=2) for s in soak(slope_bytes=0)]
    assert longest_life([*first, *second]) == second
    assert longest_life([]) == []


def test_one_wild_sample_hardly_moves_the_slope() -> None:
    xs = [float(x) for x in range(20)]
    ys = [2 * x for x in xs]
    ys[7] = 1e6
    slope, low, high = theil_sen(xs, ys)
    assert slope == pytest.approx(2.0)
    assert low <= slope <= high
