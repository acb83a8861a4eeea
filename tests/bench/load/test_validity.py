"""When a run doesn't count, and that it says why."""

import pytest

from bench.load.validity import Bounds, faults, lag_p99_s
from bench.run_folder import RequestLine

GOOD = RequestLine(id="a", status=200, done_s=1.0)
BAD = RequestLine(id="b", status=503, error="HTTP 503: busy", done_s=1.0)
BOUNDS = Bounds(max_lag_s=0.002, max_errors=0.1)


def reasons(lines: list[RequestLine], *, planned: int, lag_s: float | None) -> list[str]:
    return list(faults(lines, planned=planned, lag_s=lag_s, bounds=BOUNDS))


def test_a_good_run_has_no_fault() -> None:
    assert reasons([GOOD] * 9 + [BAD], planned=10, lag_s=0.002) == []
    assert reasons([GOOD], planned=1, lag_s=None) == []


@pytest.mark.parametrize(
    ("lines", "planned", "lag_s", "told"),
    [
        ([GOOD], 1, 0.0021, "p99 2.1 ms, 2 ms are allowed"),
        ([GOOD] * 8 + [BAD] * 2, 10, 0.0, "2 of 10 requests failed, 10 % are allowed"),
        ([GOOD] * 3, 10, 0.0, "interrupted: 3 of 10"),
    ],
)
def test_each_fault_says_what_is_allowed(
    lines: list[RequestLine], planned: int, lag_s: float, told: str
) -> None:
    (reason,) = reasons(lines, planned=planned, lag_s=lag_s)
    assert told in reason


def test_the_first_error_is_told() -> None:
    assert "HTTP 503: busy" in reasons([BAD], planned=1, lag_s=0.0)[0]


def test_lag_is_unknown_where_nothing_was_sent() -> None:
    assert lag_p99_s([]) is None
    assert lag_p99_s([0.001 * number for number in range(100)]) == pytest.approx(0.099)
