"""Times to first token with and without hits as a plot. Pure."""

import math
from typing import Any

from cache.plot_layout import Figure, axis, figure
from cache.report_numbers import duration
from cache.report_values import TtftShare, TtftSplit


def ttft_figure(split: TtftSplit) -> Figure | None:
    """Shares of requests by time on a logarithmic axis, medians marked; None without any."""
    kinds = [
        (name, color, kind)
        for name, color, kind in (
            ("with hits", "--gpu", split.with_hits),
            ("without hits", "--changed", split.without),
        )
        if kind.requests and kind.buckets
    ]
    if not kinds:
        return None
    medians = [(color, kind.p50_s) for _, color, kind in kinds if kind.p50_s]
    return figure(
        [_area(name, color, kind) for name, color, kind in kinds],
        height=320,
        xaxis=axis(type="log", **_ticks(kinds)),
        yaxis=axis(tickformat=".0%", rangemode="tozero", title={"text": "of requests"}),
        shapes=[
            {
                "type": "line", "x0": p50_s, "x1": p50_s, "y0": 0, "y1": 1, "yref": "paper",
                "line": {"color": color, "width": 2, "dash": "dash"},
            }
            for color, p50_s in medians
        ],
        annotations=[_median(color, p50_s, i) for i, (color, p50_s) in enumerate(medians)],
        margin={"l": 8, "r": 16, "t": 44, "b": 40},
    )  # fmt: skip


def _area(name: str, color: str, kind: TtftShare) -> dict[str, Any]:
    """Steps from bound to bound; the first bucket reaches as far down as the second is wide."""
    bounds = [bound for bound, _ in kind.buckets]
    ratio = bounds[1] / bounds[0] if len(bounds) > 1 else 1.5
    edges = [bounds[0] / ratio, *bounds]
    shares = [number / kind.requests for _, number in kind.buckets]
    return {
        "type": "scatter",
        "mode": "lines",
        "name": name,
        "x": edges,
        "y": [*shares, shares[-1]],
        "line": {"shape": "hv", "color": color, "width": 2},
        "fill": "tozeroy",
        "fillcolor": f"{color}-soft",
        "customdata": [
            f"{duration(low)} to {duration(high)}"
            for low, high in zip(edges, [*edges[1:], edges[-1]], strict=True)
        ],
        "hovertemplate": "%{customdata}: %{y:.1%}",
    }


def _median(color: str, p50_s: float, number: int) -> dict[str, Any]:
    return {
        "x": math.log10(p50_s),  # as plotly wants it for annotations, unlike for lines
        "y": 1,
        "yref": "paper",
        "yanchor": "bottom",
        "yshift": 16 * number,
        "text": f"p50 {duration(p50_s)}",
        "showarrow": False,
        "font": {"color": color},
    }


def _ticks(kinds: list[tuple[str, str, TtftShare]]) -> dict[str, Any]:
    """1, 3, 10 … milliseconds and seconds within what is shown."""
    bounds = [bound for _, _, kind in kinds for bound, number in kind.buckets if number]
    values = [
        base * 10.0**power
        for power in range(-4, 6)
        for base in (1, 3)
        if min(bounds) / 4 <= base * 10.0**power <= max(bounds) * 2
    ]
    return {"tickvals": values, "ticktext": [_tick(value) for value in values]}


def _tick(seconds: float) -> str:
    return f"{1000 * seconds:g} ms" if seconds < 1 else f"{seconds:g} s"
