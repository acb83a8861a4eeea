"""Hit rates over time as a plot. Pure."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from cache.alerts import split_version
from cache.plot_layout import Figure, axis, figure, safe
from cache.report_parts import Label
from cache.report_values import OverTime, TimeLine, TimePoint

# Lines differ in colour, dash and marker, so that none needs its colour to be told from others.
_COLORS = ("--line-1", "--line-2", "--line-3", "--line-4", "--line-5", "--line-6")
_DASHES = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot")
_MOST_MARKERS = 32
_MARKERS = ("circle", "square", "diamond", "triangle-up", "cross", "x")


def time_figure(over: OverTime) -> Figure:
    """All requests as a thick line below their ideal, and a line for each template."""
    everything = over.everything
    traces = [
        _line(everything, over.step, "ideal, all templates", ideal=True),
        _line(everything, over.step, "all templates", ideal=False),
        *(_template(line, over.step, i) for i, line in enumerate(over.templates)),
    ]
    shapes, notes = _version_marks(over.templates)
    return figure(
        traces,
        height=380,
        hovermode="x unified",
        xaxis=axis(type="date", showgrid=False, range=_range(over)),
        yaxis=axis(range=[0, 1.02], tickformat=".0%"),
        shapes=shapes,
        annotations=notes,
        margin={"l": 8, "r": 16, "t": 36, "b": 40},
    )


def _line(line: TimeLine, step: timedelta, name: str, *, ideal: bool) -> dict[str, Any]:
    points = _with_gaps(line.points, step)
    rates = [None if p is None else p.ideal_rate if ideal else p.hit_rate for _, p in points]
    style = {"color": "--ink", "width": 1.5 if ideal else 3, "dash": "dot" if ideal else "solid"}
    return {
        **_trace(points, rates, name),
        "line": style,
        "mode": "lines" if ideal else _mode(line.points),
        "marker": {"size": 5, "color": "--ink"},
    }


def _template(line: TimeLine, step: timedelta, number: int) -> dict[str, Any]:
    points = _with_gaps(line.points, step)
    rates = [None if point is None else point.hit_rate for _, point in points]
    color = _COLORS[number % len(_COLORS)]
    return {
        **_trace(points, rates, safe(Label(line.template))),
        "mode": _mode(line.points),
        "line": {"color": color, "width": 2, "dash": _DASHES[number % len(_DASHES)]},
        "marker": {"color": color, "size": 6, "symbol": _MARKERS[number % len(_MARKERS)]},
    }


def _range(over: OverTime) -> list[str]:
    """All intervals with one more on either side, so that a single one stands in the middle."""
    points = over.everything.points
    return [_utc(points[0].at - over.step), _utc(points[-1].at + over.step)]


def _mode(points: Sequence[TimePoint]) -> str:
    return "lines+markers" if len(points) <= _MOST_MARKERS else "lines"


def _trace(
    points: Sequence[tuple[datetime, TimePoint | None]], rates: Sequence[float | None], name: str
) -> dict[str, Any]:
    return {
        "type": "scatter",
        "name": name,
        "x": [_utc(at) for at, _ in points],
        "y": list(rates),
        "connectgaps": False,
        "customdata": [0 if point is None else point.requests for _, point in points],
        "hovertemplate": "%{y:.1%} (%{customdata:,} requests)",
    }


def _with_gaps(
    points: Sequence[TimePoint], step: timedelta
) -> list[tuple[datetime, TimePoint | None]]:
    """The points, with an empty one wherever intervals without requests lie between two."""
    found: list[tuple[datetime, TimePoint | None]] = []
    for point in points:
        if found and point.at - found[-1][0] > step:
            found.append((found[-1][0] + step, None))
        found.append((point.at, point))
    return found


def _version_marks(lines: Sequence[TimeLine]) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """A vertical line with its label where a later version of a shown template begins."""
    first: dict[str, datetime] = {}
    for line in lines:
        name, version = split_version(line.template or "")
        if version is not None and line.points:
            first[name] = min(first.get(name, line.points[0].at), line.points[0].at)
    shapes, notes = [], []
    for line in lines:
        name, _ = split_version(line.template or "")
        if name not in first or not line.points or line.points[0].at <= first[name]:
            continue
        at = _utc(line.points[0].at)
        shapes.append(
            {
                "type": "line", "x0": at, "x1": at, "y0": 0, "y1": 1, "yref": "paper",
                "line": {"color": "--muted", "width": 1, "dash": "dot"},
            }
        )  # fmt: skip
        notes.append(
            {
                "x": at, "y": 1, "yref": "paper", "yanchor": "bottom", "showarrow": False,
                "text": f"{safe(Label(line.template))} begins", "font": {"color": "--muted"},
            }
        )  # fmt: skip
    return shapes, notes


def _utc(at: datetime) -> str:
    return at.astimezone(UTC).strftime("%Y-%m-%d %H:%M")
