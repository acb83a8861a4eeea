"""What all plots share: their layout, axes, and texts that plotly can't take for HTML. Pure."""

import html
from collections.abc import Mapping, Sequence
from typing import Any

from cache.report_parts import Label, cut

Figure = dict[str, Any]
_LONGEST = 28


def figure(traces: Sequence[Mapping[str, Any]], *, height: int, **more: Any) -> Figure:
    """A figure of that height in pixels; colours are the page's own names (`--ink`)."""
    layout = {
        "height": height,
        "margin": {"l": 8, "r": 16, "t": 8, "b": 40},
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "font": {"color": "--ink", "size": 12},
        "hoverlabel": {"bgcolor": "--card", "bordercolor": "--line", "font": {"color": "--ink"}},
        "legend": {
            "orientation": "h",
            "y": -0.18,
            "yanchor": "top",
            "x": 0,
            "traceorder": "normal",
        },
        "showlegend": True,
    }
    return {"data": list(traces), "layout": {**layout, **more}}


def axis(**more: Any) -> dict[str, Any]:
    """An axis with quiet lines that makes room for its labels."""
    return {
        "automargin": True,
        "gridcolor": "--line",
        "linecolor": "--line",
        "zerolinecolor": "--line",
        "fixedrange": True,
        **more,
    }


def names_axis(names: Sequence[str]) -> dict[str, Any]:
    """A vertical axis of names, the first at the top; `names` tell bars apart, not their labels.

    Bars stand at whole numbers, so that two names that look the same stay two bars.
    """
    return axis(
        tickmode="array",
        tickvals=list(range(len(names))),
        ticktext=list(names),
        range=[len(names) - 0.5, -0.5],
        showgrid=False,
        zeroline=False,
    )


def safe(label: Label, longest: int = _LONGEST) -> str:
    """A name from a client, so that plotly shows it and reads no tag or link in it."""
    return html.escape(cut(label.clean, longest), quote=False)
