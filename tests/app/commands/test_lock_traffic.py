"""What the ledger's report says of a template's requests, and what wins over it."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from app.commands.lock_traffic import read_report, traffic_of
from prompts.lock_cost import Traffic

NOTHING = Traffic()


def group(**changed: Any) -> dict[str, Any]:
    """3,600 requests of 2,000 tokens, 1,500 of them cached, first token after a quarter second."""
    return {
        "group": {"template": "docqa@1"},
        "requests": 3600,
        "hit_rate": {"cached_tokens": 1500 * 100, "prompt_tokens": 2000 * 100, "requests": 100},
        "ttft_s": {"requests": 100, "p50": 0.25, "p90": 1.0},
    } | changed


def report(**changed: Any) -> dict[str, Any]:
    return {"groups": [group(group={"template": "chat@1"}, requests=1), group(**changed)]}


def test_rates_and_re_use_are_those_of_the_version() -> None:
    assert traffic_of("docqa@1", report(), NOTHING) == Traffic(
        requests_per_s=1.0, prefill_tok_s=2000.0, cached_tokens=1500.0, estimated=True
    )


def test_what_was_given_wins_over_what_was_seen() -> None:
    given = Traffic(requests_per_s=40, prefill_tok_s=9000)
    assert traffic_of("docqa@1", report(), given) == Traffic(
        requests_per_s=40, prefill_tok_s=9000, cached_tokens=1500.0
    )
    assert traffic_of("docqa@1", None, given) == given


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({"requests": 0}, NOTHING),
        (
            {"hit_rate": {"cached_tokens": 0, "prompt_tokens": 0, "requests": 0}},
            Traffic(requests_per_s=1.0),
        ),
        (
            {"ttft_s": {"requests": 0, "p50": None, "p90": None}},
            Traffic(requests_per_s=1.0, cached_tokens=1500.0),
        ),
        (
            {"hit_rate": {"cached_tokens": 1990, "prompt_tokens": 2000, "requests": 1}},
            Traffic(requests_per_s=1.0, cached_tokens=1990.0),
        ),
    ],
)
def test_what_is_not_known_is_not_made_up(changed: dict[str, Any], expected: Traffic) -> None:
    assert traffic_of("docqa@1", report(**changed), NOTHING) == expected


def test_a_version_without_requests_has_no_traffic() -> None:
    assert traffic_of("docqa@2", report(), NOTHING) == NOTHING
    assert traffic_of(None, report(), NOTHING) == NOTHING


def test_without_a_gateway_there_is_no_report(tmp_path: Path) -> None:
    assert read_report(None, tmp_path) is None


def test_the_report_of_a_running_gateway_is_read(gateway: str, tmp_path: Path) -> None:
    found = read_report(gateway, tmp_path)
    assert found is not None
    since = datetime.fromisoformat(found["since"])
    assert datetime.now(UTC) - since == pytest.approx(timedelta(hours=1), abs=timedelta(minutes=1))
