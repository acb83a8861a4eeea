"""What a finished request moves."""

import re
import time
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import hypothesis.strategies as st
import pytest
from hypothesis import given

from app.levels import LEVELS, plain
from app.metrics import Metrics
from cache.rows import LedgerRow, RequestStatus
from tests.app.test_series import of, samples

ROW = LedgerRow(
    request_id="chatcmpl-1",
    at=datetime(2026, 11, 30, tzinfo=UTC),
    tenant="acme",
    template="docqa@2",
    status=RequestStatus.OK,
    mode="rag",
    replica="engine-0",
    prompt_tokens=1000,
    ideal_tokens=900,
    cached_tokens=800,
    cached_gpu=500,
    cached_ram=200,
    cached_ssd=100,
    cached_redis=0,
    cached_storage=300,
    completion_tokens=101,
    lost={"evicted": 90, "rounding": 10},
    ttft_s=0.2,
    e2e_s=2.2,
)
BY = {"template": "docqa@2", "tenant": "acme"}


def read(metrics: Metrics) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    metrics.catch_up()
    return samples(metrics.text({}))


def test_tokens_are_counted_by_template_and_tenant() -> None:
    metrics = Metrics()
    metrics.finished(ROW)
    metrics.finished(ROW)
    seen = read(metrics)
    assert seen[of("foreword_requests_total", **BY, status="ok")] == 2
    assert seen[of("foreword_prompt_tokens_total", **BY)] == 2000
    assert seen[of("foreword_output_tokens_total", **BY)] == 202
    assert seen[of("foreword_ideal_tokens_total", **BY)] == 1800
    assert seen[of("foreword_lost_tokens_total", **BY, verdict="evicted")] == 180
    tiers = [
        seen.get(of("foreword_cached_tokens_total", **BY, tier=tier))
        for tier in ("gpu", "ram", "ssd", "redis")
    ]
    assert tiers == [1000, 400, 200, None]
    assert of("foreword_unknown_cached_requests_total", **BY) not in seen


rows = st.builds(
    lambda **changes: replace(ROW, **changes),
    tenant=st.sampled_from(["acme", "other one"]),
    template=st.sampled_from(["docqa@2", "chat@1"]),
    status=st.sampled_from(RequestStatus),
    mode=st.none() | st.sampled_from(["rag", "cag"]),
    replica=st.none() | st.sampled_from(["engine-0", "engine-1"]),
    prompt_tokens=st.none() | st.integers(0, 200),
    ideal_tokens=st.none() | st.integers(0, 200),
    cached_tokens=st.none() | st.integers(0, 2),
    cached_gpu=st.none() | st.integers(0, 2),
    cached_storage=st.none() | st.integers(0, 2),
    completion_tokens=st.none() | st.integers(0, 3),
    ttft_s=st.none() | st.sampled_from([0.25, 0.5]),
    e2e_s=st.none() | st.sampled_from([0.25, 4.0]),
    lost=st.none() | st.dictionaries(st.sampled_from(["evicted", "moved"]), st.integers(0, 9)),
    error_code=st.none() | st.just("engine_timeout"),
)


@given(st.lists(rows, max_size=30))
def test_requests_counted_together_move_what_each_moves_by_itself(several: list[LedgerRow]) -> None:
    together, singly = Metrics(), Metrics()
    for row in several:
        for metrics in (together, singly):
            metrics.finished(row)
            metrics.answered("/v1/files", "POST", "200", received=1, sent=2, seconds=0.25)
            metrics.queued("batch", 0.5)
        singly.catch_up()
    assert _own(read(together)) == _own(read(singly))


def _own(
    seen: dict[tuple[str, frozenset[tuple[str, str]]], float],
) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    """Without what the process itself has."""
    return {key: value for key, value in seen.items() if key[0].startswith("foreword_")}


@pytest.mark.parametrize("requests", [1, 63, 64, 65, 200])
def test_a_scrape_has_all_that_has_finished(requests: int) -> None:
    metrics = Metrics()
    for _ in range(requests):
        metrics.finished(ROW)
    for _ in range(2):
        assert read(metrics)[of("foreword_requests_total", **BY, status="ok")] == requests


def test_times_are_counted_by_replica() -> None:
    metrics = Metrics()
    metrics.gaps("engine-0").observe(0.02)
    metrics.finished(ROW)
    seen, where = read(metrics), {"template": "docqa@2", "replica": "engine-0"}
    assert seen[of("foreword_ttft_seconds_bucket", **where, le="0.2")] == 1
    assert seen[of("foreword_e2e_seconds_sum", **where)] == 2.2
    assert seen[of("foreword_itl_seconds_count", replica="engine-0")] == 1
    speed = seen[of("foreword_output_tokens_per_second_sum", replica="engine-0")]
    assert speed == pytest.approx(100 / 2.0)


@pytest.mark.parametrize(
    ("changed", "tiers"),
    [
        ({"cached_ram": None}, {"gpu": 500, "storage": 300}),
        ({"cached_gpu": None}, {"unknown": 800}),
        ({"cached_storage": 0, "cached_gpu": 800}, {"gpu": 800}),
    ],
)
def test_tiers_that_cannot_be_told_apart_still_sum_up(
    changed: dict[str, int | None], tiers: dict[str, int]
) -> None:
    metrics = Metrics()
    metrics.finished(replace(ROW, **changed))
    told = {
        dict(labels)["tier"]: value
        for (name, labels), value in read(metrics).items()
        if name == "foreword_cached_tokens_total"
    }
    assert told == tiers


def test_what_is_unknown_is_counted_as_unknown_and_as_nothing_else() -> None:
    metrics = Metrics()
    metrics.finished(
        LedgerRow(
            request_id="1", at=ROW.at, tenant="acme", template="docqa@2",
            status=RequestStatus.ERROR, error_code="engine_timeout",
        )
    )  # fmt: skip
    seen = {key for key in read(metrics) if key[0].startswith("foreword_")}
    in_flight = of("foreword_in_flight_requests")
    assert seen == {
        in_flight,
        of("foreword_requests_total", **BY, status="error"),
        of("foreword_unknown_cached_requests_total", **BY),
        of("foreword_request_errors_total", code="engine_timeout"),
    }


def test_series_are_bounded_whatever_tenants_come() -> None:
    metrics = Metrics()
    for number in range(5_000):
        metrics.finished(replace(ROW, tenant=f"t{number}"))
    seen = read(metrics)
    tenants = {dict(labels).get("tenant") for _, labels in seen}
    assert len(tenants - {None}) == 201
    assert seen[of("foreword_requests_total", template="docqa@2", tenant="other", status="ok")] > 0
    assert sum(v for (n, _), v in seen.items() if n == "foreword_requests_total") == 5_000


def test_http_requests_limits_failovers_and_queues_are_counted() -> None:
    metrics = Metrics()
    metrics.answered("/v1/files", "POST", "413", received=10, sent=90, seconds=0.004)
    metrics.limited("tokens_per_minute")
    metrics.failed_over("engine-1")
    metrics.queued("interactive", 0.3)
    seen = read(metrics)
    assert seen[of("foreword_http_requests_total", route="/v1/files", method="POST", code="413")]
    assert seen[of("foreword_http_response_bytes_total", route="/v1/files")] == 90
    assert seen[of("foreword_limited_total", limit="tokens_per_minute")] == 1
    assert seen[of("foreword_failovers_total", replica="engine-1")] == 1
    assert seen[of("foreword_queue_seconds_count", priority="interactive")] == 1


def test_levels_and_the_process_are_on_the_page() -> None:
    seen = samples(Metrics().text(plain({"queue_depth": 3, "index_pages": None})))
    assert seen[of("foreword_queue_depth")] == 3
    assert of("foreword_index_pages") not in seen
    assert seen[of("process_resident_memory_bytes")] > 1e6


def test_a_finished_request_costs_microseconds() -> None:
    """A guard against a tenfold slip; docs/observability.md has the figures."""
    metrics = Metrics()
    metrics.finished(ROW)
    best = min(_seconds_a_row(metrics) for _ in range(5))
    assert best < 50e-6


def _seconds_a_row(metrics: Metrics) -> float:
    began = time.thread_time()
    for _ in range(500):
        metrics.finished(ROW)
    return (time.thread_time() - began) / 500


def test_every_metric_is_in_the_guide_and_the_guide_names_no_other() -> None:
    guide = Path("docs/observability.md").read_text("utf-8")
    named = set(re.findall(r"`(foreword_\w+)`", guide))
    assert named == {family.name for family in (*Metrics().families, *LEVELS)} | {
        "foreword_in_flight_requests"
    }
