"""Pages are made from raw lines alone, and draw what isn't known as unknown."""

import json
import re
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner

from bench.errors import RunFolderError
from bench.pages import numbers
from bench.pages.command import report
from bench.pages.found import Compared, find, write_compared
from bench.pages.page import render_html
from bench.pages.parts import page_of
from bench.pages.replays import curves
from bench.run_folder import Load, Target, write_facts, write_requests
from tests.bench.compare.run_making import facts, line, run

A = {"1": 0.1, "2": 0.2, "3": 0.3}
B = {"1": 0.05, "2": 0.1, "3": 0.15}


def _write(folder: Path, ttfts: dict[str, float], **changed: object) -> None:
    made = run(ttfts, **changed)
    write_facts(folder, made.facts)
    write_requests(folder, made.requests)


def _compared(folder: Path, **changed: object) -> None:
    told = Compared(title="b against a", question="Is it?", a="a", b="b", command="do it")
    write_compared(folder, msgspec.structs.replace(told, **changed))


@pytest.fixture
def two_arms(tmp_path: Path) -> Path:
    """Two rounds of each of two arms."""
    for number in ("1", "2"):
        _write(tmp_path / "case" / "a" / number, A)
        _write(tmp_path / "case" / "b" / number, B)
    _compared(tmp_path / "case")
    return tmp_path


def _figures(html: str) -> dict[str, dict[str, object]]:
    found = re.search(r'<script type="application/json" id="figures">(.*?)</script>', html, re.S)
    assert found is not None
    figures: dict[str, dict[str, object]] = json.loads(found[1])
    return figures


def test_the_command_writes_both_pages_and_again_the_same(two_arms: Path) -> None:
    done = CliRunner().invoke(report, [str(two_arms), "--title", "Two arms"])
    assert done.exit_code == 0, done.stderr
    markdown = (two_arms / "report.md").read_text()
    html = (two_arms / "report.html").read_text()
    assert markdown.startswith("# Two arms\n\nThe engine was a real one.\n")
    assert "**b is faster**: median TTFT 200.0 ms with a, 100.0 ms with b" in markdown
    CliRunner().invoke(report, [str(two_arms), "--title", "Two arms"])
    assert (two_arms / "report.md").read_text() == markdown
    assert (two_arms / "report.html").read_text() == html


def test_the_html_page_asks_nothing_and_has_its_plots(two_arms: Path) -> None:
    html = render_html(page_of("Two arms", find([two_arms]), phase="warm"))
    assert "default-src 'none'" in html
    head = html.split("<script>")[0]
    assert not re.search(r'(src|href)="(?!#)', head)
    figures = _figures(html)
    assert figures.keys() == {"curve", "ttft", "time"}
    for name in figures:
        assert f'data-figure="{name}"' in html
    assert "Unknown: no run tells it." not in html  # the losses' table says it


def test_the_first_line_says_simulated(tmp_path: Path) -> None:
    _write(tmp_path / "r", A, target=Target(url="u", kind="foreword", simulated=True))
    page = page_of("t", find([tmp_path]), phase="warm")
    assert "**simulated**" in page.lead[0]


def test_real_and_simulated_together_are_warned_of(tmp_path: Path) -> None:
    _write(tmp_path / "r" / "1", A, target=Target(url="u", kind="foreword", simulated=True))
    _write(tmp_path / "s" / "1", A)
    assert "can't be compared" in page_of("t", find([tmp_path]), phase="warm").lead[0]


def test_refused_comparisons_and_invalid_runs_say_why(tmp_path: Path) -> None:
    _write(tmp_path / "a" / "1", A)
    _write(tmp_path / "b" / "1", B, valid=False, reasons=("the generator lagged",))
    _compared(tmp_path)
    page = page_of("t", find([tmp_path]), phase="warm")
    assert any("Not compared" in words for words in page.parts[0].words)
    assert "**1 of 2 runs are invalid** and say nothing; see the table." in page.lead


def test_a_control_that_gains_says_that_the_harness_errs(two_arms: Path) -> None:
    _compared(two_arms / "case", expected="none")
    page = page_of("t", find([two_arms]), phase="warm")
    assert any("the harness errs" in words for words in page.parts[0].words)


def test_unknown_ideal_and_re_use_stay_unknown(two_arms: Path) -> None:
    page = page_of("t", find([two_arms]), phase="warm")
    loss = next(part for part in page.parts if part.id == "loss")
    assert loss.plot is None
    assert ["case/a", "ideal or re-use unknown of 6 requests", "unknown", "unknown"] in (
        loss.tables[0].rows
    )


def test_hits_misses_and_those_that_do_not_tell_are_apart() -> None:
    made = run({})
    lines = (
        line("1", ttft_s=0.1, cached_tokens=90),
        line("2", ttft_s=0.5, cached_tokens=10),
        line("3", ttft_s=0.7, cached_tokens=None),
        line("4", ttft_s=0.9, status=500, error="500"),
    )
    split = numbers.ttft_split([msgspec.structs.replace(made, requests=lines)], "warm")
    assert split.hits == pytest.approx([0.1])
    assert split.misses == pytest.approx([0.5])
    assert split.unknown == pytest.approx([0.7])


def test_losses_go_by_verdict_and_hits_lose_nothing() -> None:
    lines = (
        line("1", cached_tokens=80, ideal_tokens=80, verdict="hit"),
        line("2", cached_tokens=10, ideal_tokens=60, verdict="evicted"),
        line("3", cached_tokens=0, ideal_tokens=30),
        line("4", cached_tokens=0),
    )
    loss = numbers.loss([msgspec.structs.replace(run({}), requests=lines)], "warm")
    assert loss.by_verdict == {"evicted": 50, "unknown": 30}
    assert (loss.prompt_tokens, loss.unknown_requests) == (300, 1)


def test_rates_over_time_have_a_gap_where_nothing_is_told() -> None:
    lines = tuple(
        line(f"{n}", at_s=float(n), cached_tokens=None if n < 12 else 50) for n in range(24)
    )
    bins = numbers.over_time([msgspec.structs.replace(run({}), requests=lines)], "warm")
    assert {each.hit_rate for each in bins[:12]} == {None}
    assert {each.hit_rate for each in bins[12:]} == {0.5}
    assert all(each.ideal_rate is None for each in bins)


def test_runs_at_several_rates_make_a_curve(tmp_path: Path) -> None:
    for rate in (1, 2, 4):
        lines = [line(f"{n}", at_s=n / rate, ttft_s=0.1 * rate) for n in range(20)]
        place = tmp_path / "sweep" / f"rate-{rate}"
        write_facts(place, facts(load=Load(kind="poisson", rate_per_s=float(rate))))
        write_requests(place, lines)
    figures = _figures(render_html(page_of("t", find([tmp_path]), phase="warm")))
    (p50, _) = figures["curve"]["data"]  # type: ignore[misc]
    assert p50["x"] == sorted(p50["x"])  # type: ignore[index]
    assert p50["y"] == pytest.approx([0.1, 0.2, 0.4])  # type: ignore[index]


def test_replays_are_drawn_over_capacity(tmp_path: Path) -> None:
    rows = [
        {"policy": "lru", "capacity_tokens": 2000, "hit_rate": 0.4},
        {"policy": "lru", "capacity_tokens": 1000, "hit_rate": 0.2},
        {"policy": "belady", "capacity_tokens": 1000, "hit_rate": 0.5},
        {"policy": "unbounded", "capacity_tokens": None, "hit_rate": 0.9},
        {"tier": "G2", "capacity_tokens": 5000, "hit_rate": 0.1},
    ]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    found = find([tmp_path])
    assert [p.hit_rate for p in curves(found.replays[tmp_path.name])["lru"]] == [0.2, 0.4]
    page = page_of("t", found, phase="warm")
    assert page.lead == ["Replays had no engine: they tell hit rates, no times."]
    assert page.parts[0].plot is not None
    policies, tiers = page.parts[0].tables
    assert policies.columns[1:] == ["1,000:", "2,000:", "no bound:", "of the best:"]
    assert ["lru", "20.0 %", "40.0 %", "", "0.400"] in policies.rows
    assert ["unbounded", "", "", "90.0 %", ""] in policies.rows
    assert tiers.rows == [["G2", "5,000", "10.0 %"]]
    assert not any("G2" in name for name in curves(found.replays[tmp_path.name]))


def test_names_from_a_workload_cannot_become_tags(tmp_path: Path) -> None:
    _write(tmp_path / "<img src=x>" / "1", A)
    html = render_html(page_of("<b>t</b>", find([tmp_path]), phase="warm"))
    assert "<img" not in html.split("<script>")[0]
    assert "<b>t" not in html


def test_a_folder_without_anything_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RunFolderError):
        find([tmp_path])
    done = CliRunner().invoke(report, [str(tmp_path)])
    assert done.exit_code == 2
    assert "there is no run.json" in done.stderr
