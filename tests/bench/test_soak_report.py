"""A soak's files."""

from dataclasses import replace
from pathlib import Path

import orjson

from bench.soak.ledger_checks import LedgerFindings
from bench.soak.options import SoakOptions
from bench.soak.report import rebuild, write_result
from bench.soak.result import Result, result_of
from bench.soak.run import Life
from tests.bench.test_soak_judge import soak

FINDINGS = LedgerFindings(
    rows=40_000,
    verdicts={"hit": 40_000},
    statuses={"ok": 40_000},
    lost_tokens={},
    unbalanced=0,
    below_cached=0,
    differences=(),
)


def result(*, slope_bytes: float = 0, rows: int = 40_000, failed: int = 0) -> Result:
    samples = [replace(s, overall=s.requests) for s in soak(slope_bytes=slope_bytes)]
    samples[-1] = replace(samples[-1], ledger_rows=rows)
    life = Life(number=1, requests=40_000, ordered=3)
    life.statuses.update({"200": 40_000 - failed, "502": failed})
    return result_of(SoakOptions(folder=Path("f"), requests=40_000), life, samples, FINDINGS)


def test_all_in_order_is_good() -> None:
    assert result(failed=3).good


def test_a_row_too_few_is_not_good() -> None:
    assert not result(rows=39_999).good


def test_a_failure_that_nobody_ordered_is_not_good() -> None:
    assert not result(failed=4).good


def test_growth_is_not_good() -> None:
    assert not result(slope_bytes=1000).good


def test_a_short_run_says_that_it_is_no_million(tmp_path: Path) -> None:
    text = write_result(result(), soak(slope_bytes=0), tmp_path / "soak-0.1")
    assert "not of a million" in text
    assert "**Flat: the gateway stayed the same size.**" in text
    assert "simulated" in text
    record = orjson.loads((tmp_path / "soak-0.1.json").read_bytes())
    assert record["simulated"] is True
    assert len(record["samples"]) == 40


def test_the_page_can_be_made_again_from_the_json(tmp_path: Path) -> None:
    text = write_result(result(), soak(slope_bytes=0), tmp_path / "soak")
    (tmp_path / "soak.md").unlink()
    assert rebuild(tmp_path / "soak.json") == text
    assert (tmp_path / "soak.md").read_text() == text
