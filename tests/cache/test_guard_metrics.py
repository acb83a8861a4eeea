"""The guard's gauges; without the guard they are unknown."""

import pytest

from cache.errors import MetricsFormatError
from cache.guard_metrics import GuardStatus, parse_guard_metrics

PAGE = """\
# TYPE sglang:num_requests_total counter
sglang:num_requests_total{model_name="m"} 3.0
# HELP foreword_tier_open 1 while the tier is skipped
# TYPE foreword_tier_open gauge
foreword_tier_open{pid="12"} 1.0
# TYPE foreword_tier_failures_total counter
foreword_tier_failures_total 7.0
# TYPE foreword_tier_held_loads gauge
foreword_tier_held_loads{pid="12"} 0.0
"""


def test_the_breaker_is_read() -> None:
    assert parse_guard_metrics(PAGE) == GuardStatus(tier_open=True, failures=7, held_loads=0)
    closed = PAGE.replace('foreword_tier_open{pid="12"} 1.0', 'foreword_tier_open{pid="12"} 0.0')
    assert parse_guard_metrics(closed).tier_open is False


def test_without_the_guard_everything_is_unknown() -> None:
    page = "".join(line for line in PAGE.splitlines(True) if "foreword_" not in line)
    assert parse_guard_metrics(page) == GuardStatus()


def test_another_page_is_refused() -> None:
    with pytest.raises(MetricsFormatError):
        parse_guard_metrics("foreword_tier_open 1\n")
