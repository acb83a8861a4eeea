"""The page's plots, in the style of the re-use report's. Pure; None: there is nothing to draw."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from bench.pages.numbers import Bin, Loss, NamedRun, Split
from bench.pages.replays import CapacityPoint
from cache.plot_layout import Figure, axis, figure, names_axis, safe
from cache.report_numbers import short
from cache.report_parts import Label

_COLORS = tuple(f"--line-{number}" for number in range(1, 7))
_DASHES = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot")
_MARKERS = ("circle", "square", "diamond", "triangle-up", "cross", "x")
_LONGEST = 48
# Above the plot: below it, on a phone, it would lie over the axis' title.
_LEGEND = {
    "legend": {"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0, "font": {"size": 11}},
    "meta": {"narrow": {"layout.height": 620}},
    "margin": {"l": 8, "r": 16, "t": 8, "b": 48},
}


def throughput_latency(series: Mapping[str, Sequence[NamedRun]]) -> Figure | None:
    """A point for each run: requests a second across, TTFT up; p50 filled, p99 open."""
    traces = []
    for number, (name, runs) in enumerate(series.items()):
        for word, symbol in (("p50", ""), ("p99", "-open")):
            points = sorted(
                (rate, ttft.value)
                for each in runs
                if (rate := each.summary.throughput.requests_per_s) is not None
                and (ttft := getattr(each.summary.ttft, word)) is not None
            )
            if points:
                traces.append(
                    {
                        **_line(f"{name}, {word}", number),
                        "mode": "lines+markers",
                        "x": [x for x, _ in points],
                        "y": [y for _, y in points],
                        "marker": {
                            "color": _color(number),
                            "size": 9,
                            "symbol": _MARKERS[number % len(_MARKERS)] + symbol,
                        },
                        "hovertemplate": "%{x:.2f} requests/s, TTFT %{y:.3f} s",
                    }
                )
    if not traces:
        return None
    return figure(
        traces,
        height=380,
        xaxis=axis(title={"text": "requests a second"}, rangemode="tozero"),
        yaxis=axis(title={"text": "TTFT, s"}, rangemode="tozero"),
        **_LEGEND,
    )


def ttft_cdf(splits: Mapping[str, Split]) -> Figure | None:
    """Share of requests by TTFT: hits solid, misses dashed, those that don't tell dotted."""
    traces = []
    for number, (name, split) in enumerate(splits.items()):
        kinds = (("hits", split.hits, "solid"), ("misses", split.misses, "dash"))
        for word, values, dash in (*kinds, ("re-use unknown", split.unknown, "dot")):
            if values:
                color = "--unknown" if word == "re-use unknown" else _color(number)
                traces.append(
                    {
                        **_line(f"{name}, {word} ({len(values):,})", number),
                        "mode": "lines",
                        "x": [values[0], *values],
                        "y": [0, *((place + 1) / len(values) for place in range(len(values)))],
                        "line": {"color": color, "dash": dash, "width": 2, "shape": "hv"},
                        "hovertemplate": "%{y:.0%} within %{x:.3f} s",
                    }
                )
    if not traces:
        return None
    return figure(
        traces,
        height=380,
        xaxis=axis(type="log", title={"text": "TTFT"}, **_seconds(splits.values())),
        yaxis=axis(range=[0, 1.02], tickformat=".0%", title={"text": "of requests"}),
        **_LEGEND,
    )


def rates_over_time(series: Mapping[str, Sequence[Bin]]) -> Figure | None:
    """Hit rate solid and its ideal dotted; a gap where it isn't known."""
    traces = []
    for number, (name, bins) in enumerate(series.items()):
        for word, rates, dash in (
            ("", [each.hit_rate for each in bins], "solid"),
            (", ideal", [each.ideal_rate for each in bins], "dot"),
        ):
            if any(rate is not None for rate in rates):
                traces.append(
                    {
                        **_line(f"{name}{word}", number),
                        "mode": "lines+markers" if not word else "lines",
                        "x": [each.at_s for each in bins],
                        "y": rates,
                        "connectgaps": False,
                        "line": {"color": _color(number), "dash": dash, "width": 2},
                        "marker": {"size": 5, "color": _color(number)},
                        "hovertemplate": "%{x:.0f} s: %{y:.1%}",
                    }
                )
    if not traces:
        return None
    return figure(
        traces,
        height=360,
        xaxis=axis(title={"text": "seconds from the first request"}, rangemode="tozero"),
        yaxis=axis(range=[0, 1.02], tickformat=".0%", title={"text": "hit rate"}),
        **_LEGEND,
    )


def losses(series: Mapping[str, Loss]) -> Figure | None:
    """Tokens short of the ideal in percent of all, a bar for each series, parted by verdict."""
    names = [name for name, loss in series.items() if loss.prompt_tokens]
    verdicts = list(dict.fromkeys(v for name in names for v in series[name].by_verdict))
    if not verdicts:
        return None
    traces = [
        {
            "type": "bar",
            "orientation": "h",
            "name": verdict,
            "y": list(range(len(names))),
            "x": [
                series[name].by_verdict.get(verdict, 0) / series[name].prompt_tokens
                for name in names
            ],
            "marker": {"color": f"--{verdict if verdict in _OWN_COLORS else 'unknown'}"},
            "hovertemplate": f"{verdict}: %{{x:.1%}}<extra></extra>",
        }
        for verdict in verdicts
    ]
    return figure(
        traces,
        height=120 + 34 * max(2, len(names)),
        barmode="stack",
        bargap=0.3,
        xaxis=axis(tickformat=".0%", rangemode="tozero", title={"text": "of prompt tokens"}),
        yaxis=names_axis([safe(Label(name), _LONGEST) for name in names]),
        **{**_LEGEND, "meta": {}},
    )


def rate_over_capacity(curves: Mapping[str, Sequence[CapacityPoint]]) -> Figure | None:
    """A line for each policy of a replay."""
    capacities = sorted({point.capacity_tokens for points in curves.values() for point in points})
    traces = [
        {
            **_line(name, number),
            "mode": "lines+markers",
            "x": [point.capacity_tokens for point in points],
            "y": [point.hit_rate for point in points],
            "line": {"color": _color(number), "dash": _DASHES[number % len(_DASHES)], "width": 2},
            "marker": {
                "color": _color(number),
                "size": 7,
                "symbol": _MARKERS[number % len(_MARKERS)],
            },
            "hovertemplate": "%{x:,} tokens: %{y:.1%}",
        }
        for number, (name, points) in enumerate(curves.items())
        if points
    ]
    if not traces:
        return None
    return figure(
        traces,
        height=400,
        xaxis=axis(
            type="log",
            title={"text": "capacity, tokens"},
            tickvals=capacities,
            ticktext=[short(round(capacity)) for capacity in capacities],
        ),
        yaxis=axis(rangemode="tozero", tickformat=".0%", title={"text": "hit rate"}),
        **_LEGEND,
    )


_OWN_COLORS = frozenset({"changed", "isolated", "evicted", "moved", "rounding", "engine"})


def _seconds(splits: Iterable[Split]) -> dict[str, Any]:
    """1, 2, 5, 10 … within what is shown."""
    known = [
        value for split in splits for value in (*split.hits, *split.misses, *split.unknown) if value
    ]
    if not known:
        return {}
    values = [
        base * 10.0**power
        for power in range(-5, 5)
        for base in (1, 2, 5)
        if min(known) / 2 <= base * 10.0**power <= max(known) * 2
    ]
    return {"tickvals": values, "ticktext": [_tick(value) for value in values]}


def _tick(seconds: float) -> str:
    return f"{1000 * seconds:g} ms" if seconds < 1 else f"{seconds:g} s"


def _line(name: str, number: int) -> dict[str, Any]:
    return {
        "type": "scatter",
        "name": safe(Label(name), _LONGEST),
        "line": {"color": _color(number), "width": 2},
    }


def _color(number: int) -> str:
    return _COLORS[number % len(_COLORS)]
