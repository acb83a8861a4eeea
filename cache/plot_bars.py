"""Plots made of horizontal bars, which keep their names readable on a phone. Pure."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cache.plot_layout import Figure, axis, figure, names_axis, safe
from cache.report_numbers import UNKNOWN, count, percent, plural, share, short
from cache.report_shares import prompt_shares
from cache.report_tables import REASONS, group_labels
from cache.report_values import Breakdown, Group, Waterfall

_MOST_BARS = 12
_BAR_PX = 30
# Colours too pale for the text that the others bear.
_ON_BAR = {
    "--new": "--on-new",
    **dict.fromkeys(("--evicted", "--moved", "--isolated", "--unknown"), "--on-pale"),
}


def waterfall_figure(fall: Waterfall) -> Figure:
    """Prompt tokens, less what was new or lost for each reason, down to what was re-used."""
    steps = list(_steps(fall))
    whole = fall.prompt_tokens
    bars = {
        "type": "bar",
        "orientation": "h",
        "y": list(range(len(steps))),
        "x": [step.tokens for step in steps],
        "base": [step.base for step in steps],
        "marker": {"color": [step.color for step in steps], "line": {"width": 0}},
        "text": [f"{short(step.tokens)} · {share(step.tokens, whole)}" for step in steps],
        "textposition": "auto",
        "cliponaxis": False,
        "customdata": [f"{count(step.tokens)} tokens: {step.words}" for step in steps],
        "hovertemplate": "%{customdata}<extra></extra>",
        "insidetextanchor": "middle",
        "insidetextfont": {"color": [_ON_BAR.get(step.color, "--on-bar") for step in steps]},
    }
    return figure(
        [bars],
        height=64 + 36 * len(steps),
        showlegend=False,
        bargap=0.25,
        xaxis=axis(range=[0, whole * 1.02], tickformat="~s", nticks=6),
        yaxis=names_axis([step.name for step in steps]),
        meta={"narrow": {"layout.xaxis.range": [0, whole * 1.5]}},
    )


def reuse_figure(found: Breakdown) -> Figure:
    """Each group's prompt tokens in percent: re-used, lost, new, and what isn't known of them."""
    groups = _shown(found)
    shares = [_reuse_shares(group) for _, group in groups]
    kinds = (
        ("re-used", "--gpu", ""),
        ("lost", "--changed", ""),
        ("new", "--new", ""),
        ("not re-used, ideal unknown", "--rounding", "."),
        ("unknown", "--unknown", "/"),
    )
    return _stacked(groups, shares, kinds, lambda group: percent(group.summary.hit.rate))


def tier_figure(found: Breakdown) -> Figure:
    """Each group's prompt tokens in percent by the tier that they were re-used from."""
    groups = _shown(found)
    kinds = (
        ("GPU", "--gpu", ""),
        ("RAM", "--ram", ""),
        ("SSD", "--ssd", ""),
        ("Redis", "--redis", ""),
        ("a tier, not known which", "--storage", "."),
        ("not known where from", "--unknown", "/"),
    )
    shares = [_tier_shares(group) for _, group in groups]
    return _stacked(groups, shares, kinds, _cached_tokens)


def _cached_tokens(group: Group) -> str:
    known = group.summary.cached.known_requests
    return short(group.summary.cached.tokens) if known else UNKNOWN


@dataclass(frozen=True, slots=True)
class _Step:
    name: str
    tokens: int
    base: int
    color: str
    words: str


def _steps(fall: Waterfall) -> Sequence[_Step]:
    steps = [_Step("prompt", fall.prompt_tokens, 0, "--prompt", "all prompt tokens")]
    rest = fall.prompt_tokens

    def less(name: str, tokens: int, color: str, words: str) -> None:
        nonlocal rest
        rest -= tokens
        steps.append(_Step(name, tokens, rest, color, words))

    def lose(losses: Mapping[str, int]) -> None:
        for verdict, tokens in losses.items():
            less(verdict, tokens, f"--{verdict}", REASONS[verdict])

    less("new", fall.new_tokens, "--new", "nobody had computed them before")
    lose(fall.beyond)
    steps.append(_Step("ideal", fall.ideal_tokens, 0, "--ideal", "earlier requests had left them"))
    lose(fall.within)
    steps.append(_Step("re-used", fall.cached_tokens, 0, "--gpu", "the engine re-used them"))
    return steps


def _stacked(
    groups: Sequence[tuple[str, Group]],
    shares: Sequence[Sequence[float]],
    kinds: Sequence[tuple[str, str, str]],
    end: Callable[[Group], str],
) -> Figure:
    traces = [
        _kind_trace(name, color, pattern, [share_[i] for share_ in shares], groups)
        for i, (name, color, pattern) in enumerate(kinds)
        if any(share_[i] for share_ in shares)
    ]
    return figure(
        traces,
        height=100 + _BAR_PX * max(len(groups), 2),
        barmode="stack",
        bargap=0.3,
        xaxis=axis(range=[0, 1], tickformat=".0%", nticks=6),
        yaxis=names_axis([name for name, _ in groups]),
        annotations=[
            {
                "x": 1, "xref": "paper", "xanchor": "left", "xshift": 4, "y": i, "yref": "y",
                "text": end(group), "showarrow": False, "font": {"size": 12, "color": "--ink"},
            }
            for i, (_, group) in enumerate(groups)
        ],
        margin={"l": 8, "r": 64, "t": 8, "b": 40},
    )  # fmt: skip


def _kind_trace(
    name: str,
    color: str,
    pattern: str,
    shares: Sequence[float],
    groups: Sequence[tuple[str, Group]],
) -> dict[str, Any]:
    return {
        "type": "bar",
        "orientation": "h",
        "name": name,
        "y": list(range(len(shares))),
        "x": list(shares),
        "marker": {
            "color": color,
            "pattern": {
                "shape": pattern,
                "size": 6,
                "solidity": 0.3,
                "fillmode": "overlay",
                "fgcolor": "--card",
            },
            "line": {"width": 1, "color": "--card"},
        },
        "customdata": [
            f"{label}<br>{plural(group.summary.requests, 'request')}" for label, group in groups
        ],
        "hovertemplate": f"%{{customdata}}<br>{name}: %{{x:.1%}}<extra></extra>",
    }


def _shown(found: Breakdown) -> list[tuple[str, Group]]:
    """The first groups with their names; those without room are in the table beside the plot."""
    shown = [
        (" · ".join(safe(label) for label in group_labels(group, found.by)) or "all", group)
        for group in found.groups[:_MOST_BARS]
    ]
    if found.rest is not None and len(shown) < _MOST_BARS:
        shown.append((f"{count(found.rest_groups)} others", found.rest))
    return shown


def _reuse_shares(group: Group) -> tuple[float, ...]:
    """Re-used, lost, new, not told, unknown; together 1."""
    parts = prompt_shares(group)
    if not parts.total:
        return 0, 0, 0, 0, 1
    lost = sum(parts.lost.values())
    tokens = parts.reused, lost, parts.new, parts.unexplained, parts.unknown
    return tuple(part / parts.total for part in tokens)


def _tier_shares(group: Group) -> tuple[float, ...]:
    """GPU, RAM, SSD, Redis, storage that isn't split, and cached tokens without a tier."""
    parts = prompt_shares(group)
    tokens = parts.gpu, parts.ram, parts.ssd, parts.redis, parts.tier, parts.reused_somewhere
    return tuple(part / parts.total if parts.total else 0 for part in tokens)
