"""The figures of a report's plots, as plain values."""

import json
from datetime import UTC, datetime, timedelta

import pytest

from cache.flame import FlameNode
from cache.plot_bars import reuse_figure, tier_figure, waterfall_figure
from cache.plot_flame import flame_figure
from cache.plot_layout import safe
from cache.plot_time import time_figure
from cache.plot_ttft import ttft_figure
from cache.report_flame import pieces
from cache.report_numbers import brief, count, duration, percent, share, short
from cache.report_parts import Label, cut, display_width
from cache.report_tables import sparkline
from cache.report_values import (
    Breakdown,
    Group,
    OverTime,
    TimeLine,
    TimePoint,
    TtftShare,
    TtftSplit,
    Waterfall,
)
from cache.summary import HitRate, Percentiles, Summary, TierSums, TokenSum

START = datetime(2026, 1, 2, tzinfo=UTC)
HOUR = timedelta(hours=1)
NO_TTFT = TtftShare(requests=0, p50_s=None, p90_s=None, p99_s=None)


def tokens(number: int | None) -> TokenSum:
    known = int(number is not None)
    return TokenSum(tokens=number or 0, known_requests=known, unknown_requests=1 - known)


def group(prompt: int | None, cached: int | None, **tiers: int) -> Group:
    is_known = prompt is not None and cached is not None
    hit = HitRate(
        cached_tokens=(cached or 0) if is_known else 0,
        prompt_tokens=(prompt or 0) if is_known else 0,
        requests=int(is_known),
    )
    by_tier = {name: tokens(tiers.get(name)) for name in ("gpu", "ram", "ssd", "redis", "storage")}
    summary = Summary(
        group={"template": "a@1"}, requests=1, errors=0, aborted=0, prompt=tokens(prompt),
        completion=tokens(None), cached=tokens(cached), by_tier=TierSums(**by_tier), hit=hit,
        ttft=Percentiles(requests=0, p50_s=None, p90_s=None),
    )  # fmt: skip
    return Group(summary=summary)


def breakdown(*groups: Group) -> Breakdown:
    return Breakdown(by=("template",), groups=groups)


def shown(figure: dict[str, object]) -> dict[str, list[float]]:
    data = figure["data"]
    assert isinstance(data, list)
    return {trace["name"]: trace["x"] for trace in data}


def test_each_bar_of_the_waterfall_is_what_the_one_above_leaves() -> None:
    fall = Waterfall(
        requests=1, prompt_tokens=1000, new_tokens=200, ideal_tokens=700, cached_tokens=400,
        lost={"changed": 100, "evicted": 250, "rounding": 50},
    )  # fmt: skip
    figure = waterfall_figure(fall)
    (bars,) = figure["data"]
    assert list(zip(bars["base"], bars["x"], strict=True)) == [
        (0, 1000),
        (800, 200),
        (700, 100),
        (0, 700),
        (450, 250),
        (400, 50),
        (0, 400),
    ]
    names = figure["layout"]["yaxis"]["ticktext"]
    assert names == ["prompt", "new", "changed", "ideal", "evicted", "rounding", "re-used"]


def test_an_opening_that_fills_no_page_is_lost_beyond_the_ideal() -> None:
    fall = Waterfall(
        requests=2, prompt_tokens=100, new_tokens=20, ideal_tokens=64, cached_tokens=48,
        lost={"rounding": 26, "changed": 6},
    )  # fmt: skip
    assert fall.beyond == {"changed": 6, "rounding": 10}
    assert fall.within == {"rounding": 16}


def test_what_others_were_only_computing_is_lost_beyond_the_ideal() -> None:
    """As seen with two engines: one computed the opening while the other was asked for it."""
    fall = Waterfall(
        requests=2, prompt_tokens=600, new_tokens=174, ideal_tokens=232, cached_tokens=200,
        lost={"isolated": 18, "moved": 208},
    )  # fmt: skip
    assert fall.beyond == {"isolated": 18, "moved": 176}
    assert fall.within == {"moved": 32}
    (bars,) = waterfall_figure(fall)["data"]
    assert bars["base"][-1] == 0
    assert min(bars["base"]) >= 0


def test_what_is_unknown_has_a_bar_of_its_own_and_is_never_zero() -> None:
    figure = reuse_figure(breakdown(group(100, 25), group(100, None), group(None, None)))
    bars = shown(figure)
    assert bars["re-used"] == [0.25, 0, 0]
    assert bars["unknown"] == [0, 1, 1]
    assert bars["not re-used, ideal unknown"] == [0.75, 0, 0]
    ends = [note["text"] for note in figure["layout"]["annotations"]]
    assert ends == ["25.0 %", "unknown", "unknown"]


def test_storage_that_is_not_split_is_told_apart_from_known_tiers() -> None:
    figure = tier_figure(
        breakdown(
            group(100, 60, gpu=20, ram=10, ssd=0, redis=0, storage=40),
            group(100, 60),
            group(100, None),
        )
    )
    bars = shown(figure)
    assert bars["GPU"] == [0.2, 0, 0]
    assert bars["RAM"] == [0.1, 0, 0]
    assert bars["a tier, not known which"] == [0.3, 0, 0]
    assert bars["not known where from"] == [0, 0.6, 0]
    assert [note["text"] for note in figure["layout"]["annotations"]] == ["60", "60", "unknown"]


def line(template: str | None, *rates: float | None) -> TimeLine:
    """A point an hour; None is an hour without requests."""
    return TimeLine(
        template=template,
        points=tuple(
            TimePoint(
                at=START + i * HOUR, requests=1, cached_tokens=int(100 * rate), prompt_tokens=100
            )
            for i, rate in enumerate(rates)
            if rate is not None
        ),
    )


def test_an_hour_without_requests_is_a_gap_and_no_zero() -> None:
    over = OverTime(step=HOUR, everything=line(None, 0.5, None, None, 0.7))
    trace = time_figure(over)["data"][1]
    assert trace["y"] == [0.5, None, 0.7]
    assert trace["connectgaps"] is False


def test_a_later_version_is_marked_where_it_begins() -> None:
    over = OverTime(
        step=HOUR,
        everything=line(None, 0.5, 0.5, 0.5),
        templates=(line("a@2", None, None, 0.4), line("a@1", 0.5, 0.5), line("b@1", None, 0.5)),
    )
    layout = time_figure(over)["layout"]
    assert [note["text"] for note in layout["annotations"]] == ["a@2 begins"]
    assert layout["shapes"][0]["x0"] == "2026-01-02 02:00"


def test_times_are_drawn_as_shares_of_their_own_kind() -> None:
    buckets = ((0.1, 3), (0.2, 1), (0.4, 0))
    hits = TtftShare(requests=4, p50_s=0.09, p90_s=0.15, p99_s=0.15, buckets=buckets)
    figure = ttft_figure(TtftSplit(with_hits=hits, without=NO_TTFT, unknown=NO_TTFT))
    assert figure is not None
    (area,) = figure["data"]
    assert area["x"] == [0.05, 0.1, 0.2, 0.4]
    assert area["y"] == [0.75, 0.25, 0, 0]


def test_without_times_there_is_no_plot_of_them() -> None:
    assert ttft_figure(TtftSplit(with_hits=NO_TTFT, without=NO_TTFT, unknown=NO_TTFT)) is None


def node(label: str, served: int, cached: int | None, *children: FlameNode) -> FlameNode:
    return FlameNode(
        label=label, tokens=served, requests=1, served_tokens=served, cached_tokens=cached,
        known_tokens=0 if cached is None else served, children=children,
    )  # fmt: skip


def test_the_flame_is_as_wide_as_what_was_served_in_it_and_below() -> None:
    deep = node("c", 10, 5)
    root = node("", 0, None, node("a", 100, 100, node("b", 20, None), deep), node("d", 7, 0))
    figure = flame_figure(root)
    (icicle,) = figure["data"]
    assert dict(zip(icicle["labels"], icicle["values"], strict=True)) == {
        "all prompts": 137,
        "a": 130,
        "b": 20,
        "c": 10,
        "d": 7,
    }
    parents = dict(zip(icicle["ids"], icicle["parents"], strict=True))
    assert parents == {"0": "", "0.0": "0", "0.0.0": "0.0", "0.0.1": "0.0", "0.1": "0"}
    colors = dict(zip(icicle["labels"], icicle["marker"]["colors"], strict=True))
    assert colors["a"] == "--reuse-5"
    assert colors["b"] == "--unknown"
    assert colors["c"] == "--reuse-3"
    assert colors["d"] == "--reuse-0"
    parted = {
        label
        for label, width in zip(icicle["labels"], icicle["marker"]["line"]["width"], strict=True)
        if width > 1
    }
    assert parted == {"all prompts", "a"}
    json.dumps(figure, allow_nan=False)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("docqa@3", "docqa@3"),
        ("<b>", "&lt;b&gt;"),
        ("a&lt;b", "a&amp;lt;b"),
        (None, "(none)"),
        ("", "(empty)"),
        ("\x1b[0m", "\N{REPLACEMENT CHARACTER}[0m"),
        ("x" * 99, "x" * 27 + "…"),
    ],
)
def test_names_in_plots_are_texts(name: str | None, text: str) -> None:
    assert safe(Label(name)) == text


def test_figures_are_written_for_people() -> None:
    assert [count(n) for n in (0, 1234567, 10**8, 10**13)] == ["0", "1,234,567", "100M", "10.0T"]
    assert [short(n) for n in (999, 1000, 65_159_463, 999_500)] == ["999", "1k", "65.2M", "1M"]
    assert [brief(n, digits=5) for n in (99_999, 100_000)] == ["99,999", "100k"]
    assert [percent(r) for r in (1.0, 0.9999, 0.571, 0.0, None)] == [
        "100.0 %", "99.9 %", "57.1 %", "0.0 %", "unknown",
    ]  # fmt: skip
    assert [share(n, 10_000) for n in (0, 1, 9_999, 10_000)] == [
        "0.0 %", "< 0.1 %", "99.9 %", "100.0 %",
    ]  # fmt: skip
    assert [duration(s) for s in (0.0421, 1.5, 123, 4000, 10_000, None)] == [
        "42 ms", "1.50 s", "123 s", "67 min", "2.8 h", "unknown",
    ]  # fmt: skip


def test_a_sparkline_has_a_dot_for_the_unknown() -> None:
    assert sparkline([0.0, 0.5, 1.0, None]) == "▁▅█·"
    assert len(sparkline([0.5] * 99)) == 60


def test_wide_characters_take_two_columns() -> None:
    assert display_width("東京") == 4
    assert cut("東京都", 5) == "東京…"
    assert cut("東京都", 6) == "東京都"


def test_all_prompts_together_re_use_what_their_pieces_did() -> None:
    """What the root has of its own, of prompts shorter than a page, stands for nobody else."""
    piece = FlameNode(
        label="rules", tokens=64, requests=9, served_tokens=576, cached_tokens=512, known_tokens=576
    )
    root = FlameNode(
        label="", tokens=0, requests=12, served_tokens=21, cached_tokens=0, known_tokens=21,
        children=(piece,),
    )  # fmt: skip
    whole, rules = pieces(root)
    assert (whole.rate, whole.reused) == (512 / 597, "85.7 %")
    assert rules.rate == 512 / 576
    (icicle,) = flame_figure(root)["data"]
    assert icicle["customdata"][0].endswith("85.7 % of them were re-used")
    assert icicle["customdata"][1].endswith("88.8 % of its own were re-used")
