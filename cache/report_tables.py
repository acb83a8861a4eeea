"""The tables of a report: groups, tiers, the waterfall, times to first token. Pure."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from cache.report_numbers import UNKNOWN, brief, count, duration, moment, percent, share, tokens
from cache.report_parts import Align, Column, Inline, Label, Table
from cache.report_shares import prompt_shares
from cache.report_values import (
    VERDICTS,
    Breakdown,
    Group,
    OverTime,
    TimeLine,
    TtftShare,
    TtftSplit,
    Waterfall,
)

# What a verdict's tokens are.
REASONS = {
    "changed": "text changed that an earlier prompt had the same",
    "isolated": "another collection, isolated conversation or tenant had them",
    "evicted": "the replica had them and has them no longer",
    "moved": "another replica has them",
    "rounding": "they end within a page or a tier's chunk",
    "engine": "a rule of the engine, as for prompts computed side by side",
    "unknown": "why they weren't re-used can't be known",
}
TREND = "trend (0 % to 100 %)"
_TIERS = ("gpu", "ram", "ssd", "redis", "storage")


def reuse_table(found: Breakdown, total: Group | None, caption: str) -> Table:
    """Requests, tokens, hit rate beside the ideal, and time to first token of each group."""
    return _by_group(
        found,
        total,
        caption,
        (
            "requests",
            "failed",
            "aborted",
            "prompt",
            "cached",
            "hit rate",
            "ideal",
            "TTFT p50",
            "p90",
        ),
        lambda group: (
            brief(group.summary.requests, digits=7),
            brief(group.summary.errors, digits=5),
            brief(group.summary.aborted, digits=5),
            tokens(group.summary.prompt),
            tokens(group.summary.cached),
            percent(group.summary.hit.rate, of_some=group.summary.requests),
            percent(group.ideal_rate, of_some=group.summary.requests),
            duration(group.summary.ttft.p50_s),
            duration(group.summary.ttft.p90_s),
        ),
    )


def tier_table(found: Breakdown, total: Group | None, caption: str) -> Table:
    """Cached tokens of each group by the tier that they came from, as far as that is known."""
    return _by_group(
        found,
        total,
        caption,
        (*_TIERS, "not known"),
        lambda group: [
            *(tokens(getattr(group.summary.by_tier, tier)) for tier in _TIERS),
            tokens(replace(group.summary.cached, tokens=prompt_shares(group).reused_somewhere)),
        ],
    )


def loss_table(found: Breakdown, total: Group | None, caption: str, *, detail: bool) -> Table:
    """Lost tokens of each group by verdict, only verdicts that cost some."""
    groups = [*found.groups, *([found.rest] if found.rest else [])]
    cost = [
        verdict
        for verdict in VERDICTS
        if any(group.waterfall and group.waterfall.lost.get(verdict) for group in groups)
    ]
    table = _by_group(found, total, caption, ("lost", *cost), lambda group: _losses(group, cost))
    return replace(table, detail=detail)


def waterfall_table(fall: Waterfall) -> Table:
    """From all prompt tokens down to those that were re-used."""
    whole = fall.prompt_tokens

    def row(name: str, number: int, words: str, sign: str = "") -> tuple[Inline, ...]:
        return (name, f"{sign}{count(number)}", share(number, whole), words)

    def lost(losses: Mapping[str, int]) -> list[tuple[Inline, ...]]:
        return [
            row(f"lost: {verdict}", number, REASONS[verdict], "-")
            for verdict, number in losses.items()
        ]

    return Table(
        caption="From prompt tokens to re-used tokens",
        columns=(
            Column("step", Align.LEFT),
            Column("tokens"),
            Column("of prompt"),
            Column("what they are", Align.LEFT),
        ),
        rows=(
            row("prompt", whole, "all prompt tokens"),
            row("new", fall.new_tokens, "nobody had computed them before", "-"),
            *lost(fall.beyond),
            row("ideal", fall.ideal_tokens, "earlier requests had left them, as they were sent"),
            *lost(fall.within),
            row("re-used", fall.cached_tokens, "the engine said so"),
        ),
    )


def ttft_table(split: TtftSplit) -> Table:
    """Percentiles of the time to first token, with and without re-use."""
    kinds = [("with hits", split.with_hits), ("without hits", split.without)]
    if split.unknown.requests:
        kinds.append(("re-use unknown", split.unknown))
    return Table(
        caption="Time to first token",
        columns=(
            Column("requests that ran", Align.LEFT),
            Column("requests"),
            Column("p50"),
            Column("p90"),
            Column("p99"),
        ),
        rows=[(name, count(kind.requests), *_percentiles(kind)) for name, kind in kinds],
    )


def over_time_table(over: OverTime) -> Table:
    """Each interval's requests and hit rate, all templates together."""
    return Table(
        caption="Hit rate over time, all templates",
        detail=True,
        columns=(
            Column("from", Align.LEFT),
            Column("requests"),
            Column("hit rate"),
            Column("ideal"),
        ),
        rows=[
            (
                moment(point.at)[:16],
                count(point.requests),
                percent(point.hit_rate, of_some=point.requests),
                percent(point.ideal_rate, of_some=point.requests),
            )
            for point in over.everything.points
        ],
    )


def trend_table(lines: Sequence[TimeLine]) -> Table:
    """Each template's first and last interval, and the way between them as a sparkline."""
    return Table(
        caption="Hit rate over time, by template",
        columns=(
            Column("template", Align.LEFT),
            Column("first"),
            Column("last"),
            Column(TREND, Align.LEFT),
        ),
        rows=[
            (
                Label(line.template),
                percent(line.points[0].hit_rate),
                percent(line.points[-1].hit_rate),
                sparkline([point.hit_rate for point in line.points]),
            )
            for line in lines
            if line.points
        ],
    )


def sparkline(rates: Sequence[float | None], width: int = 60) -> str:
    """Rates 0 … 1 as a line of blocks, at most the last `width`; unknown is a dot."""
    blocks = "▁▂▃▄▅▆▇█"
    return "".join(
        "·" if rate is None else blocks[min(int(rate * len(blocks)), len(blocks) - 1)]
        for rate in rates[-width:]
    )


def group_labels(group: Group, by: Sequence[str]) -> tuple[Label, ...]:
    """A group's names, in the order of the columns."""
    return tuple(Label(group.summary.group.get(name)) for name in by)


def _by_group(
    found: Breakdown,
    total: Group | None,
    caption: str,
    headers: Sequence[str],
    figures: Callable[[Group], Sequence[str]],
) -> Table:
    """A row a group, then the rest as one, then the total where there is more than one row."""
    by = found.by
    rows: list[tuple[Inline, ...]] = [
        (*group_labels(group, by), *figures(group)) for group in found.groups
    ]
    if found.rest is not None:
        rows.append((*_words(f"{count(found.rest_groups)} others", by), *figures(found.rest)))
    has_total = total is not None and len(rows) > 1
    if total is not None and has_total:
        rows.append((*_words("total", by), *figures(total)))
    columns = (*(Column(name, Align.LEFT) for name in by), *map(Column, headers))
    return Table(caption=caption, columns=columns, rows=rows, has_total=has_total)


def _words(text: str, by: Sequence[str]) -> tuple[str, ...]:
    return (text, *("" for _ in by[1:])) if by else ()


def _losses(group: Group, verdicts: Sequence[str]) -> list[str]:
    fall = group.waterfall
    if fall is None:
        return [UNKNOWN] * (1 + len(verdicts))
    return [count(fall.lost_tokens), *(count(fall.lost.get(verdict, 0)) for verdict in verdicts)]


def _percentiles(kind: TtftShare) -> tuple[str, str, str]:
    if not kind.requests:
        return "n/a", "n/a", "n/a"
    return duration(kind.p50_s), duration(kind.p90_s), duration(kind.p99_s)
