"""How late the generator is, is told of what was sent, and against a goal."""

import pytest

from bench.load.overhead import lateness_s, page_lines
from bench.run_folder import RequestLine


def test_late_is_when_a_request_was_sent_after_its_time() -> None:
    lines = [
        RequestLine(id=str(n), scheduled_s=n / 100, sent_s=n / 100 + n / 1000) for n in range(100)
    ]
    told = lateness_s([*lines, RequestLine(id="never sent", scheduled_s=1.0)])
    assert told["p50_s"] == pytest.approx(0.05)
    assert told["p99_s"] == told["max_s"] == pytest.approx(0.099)
    assert lateness_s([]) == {"p50_s": None, "p99_s": None, "max_s": None}


def test_the_page_says_who_met_the_goal() -> None:
    row = {
        "arrivals": "poisson", "generator": "real-time", "failed": 0, "p50_s": 0.0001,
        "p99_s": 0.0019, "max_s": 0.02, "load_average": [15.0, 9.0, 3.0],
    }  # fmt: skip
    late = row | {"generator": "ordinary", "p99_s": 0.0021}
    told = {"commit": "c", "processor": "p", "cores": 2}
    page = page_lines(
        {"requests": 9, "rate_per_s": 500.0, "environment": told, "measured": [row, late]}
    )
    assert "| poisson | **real-time** | 0.10 | 1.90 | 20.00 | met | 0 | 15.0 |" in page
    assert "| poisson | ordinary | 0.10 | 2.10 | 20.00 | missed | 0 | 15.0 |" in page
