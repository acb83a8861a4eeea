"""The page of a comparison, from its raw figures."""

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

_OURS = "foreword"
_BUDGET_US = {"json": 300, "stream": 950}
_TITLES = {
    "json": "whole answers, 8 clients",
    "stream": "streams of 50 chunks, 8 clients",
    "paced": "streams with 10 ms between chunks, 64 clients",
    "crowd": "the same, 1,000 clients",
}


def page(raw: Mapping[str, Any]) -> str:
    """Markdown."""
    samples = raw["samples"]
    lines = [
        "# Gateways side by side",
        "",
        f"One run of {raw['plan']['rounds']} interleaved rounds, medians; each gateway on one "
        "core, engine and clients on another. The engine answers at once and costs nothing (a C "
        f"program). Requests have {raw['plan']['body_bytes']:,} bytes, of which fewer than 200 "
        "were never seen before; every answer's words are counted. Raw figures: the JSON beside "
        "this page.",
        "",
        *(f"Machine: {line}" for line in [raw.get("machine", "")] if line),
        "",
        "| gateway | version | what it does to a request |",
        "|---|---|---|",
        *(
            f"| {name} | {told['version']} | {told['does']} |"
            for name, told in raw["peers"].items()
        ),
        "",
        "## CPU µs for each request",
        "",
        _cpu_table(samples, list(raw["peers"])),
        "",
        *_without_encoding(samples, raw.get("encoding_us", ())),
        "## Added latency at a quarter of its own full rate",
        "",
        "Medians over rounds of the difference to asking the engine directly at the same rate in "
        "the same round, µs.",
        "",
        _latency_table(samples, list(raw["peers"])),
        "",
        "## One client at a time",
        "",
        _alone_table(samples, ["direct", *raw["peers"]]),
        "",
        *_crowd(samples, ["direct", *raw["peers"]]),
    ]
    return "\n".join(lines)


def cpu_us(samples: Sequence[Mapping[str, Any]], gateway: str, load: str) -> float | None:
    """The median over rounds; None where nothing was answered."""
    found = [s["cpu_us"] for s in _of(samples, gateway, load) if s["cpu_us"] is not None]
    return statistics.median(found) if found else None


def _without_encoding(
    samples: Sequence[Mapping[str, Any]], encoding: Sequence[float]
) -> Sequence[str]:
    """What the budget of whole answers is about: encoding new text is told apart."""
    whole = cpu_us(samples, _OURS, "json")
    if whole is None or not encoding:
        return ()
    new = statistics.median(encoding)
    return (
        f"Of {_OURS}'s whole answers, {new:.0f} µs encode the text that was never seen before "
        "(measured by itself, in the same rounds, on the same core; the other gateways encode "
        f"nothing). The budget leaves that out: {whole - new:.0f} µs.",
        "",
    )


def _cpu_table(samples: Sequence[Mapping[str, Any]], gateways: Sequence[str]) -> str:
    loads = [load for load in _TITLES if any(s["load"] == load for s in samples)]
    head = " | ".join(_TITLES[load] for load in loads)
    lines = [f"| gateway | {head} | wrong or broken | most memory, MB |",
             "|---|" + "--:|" * (len(loads) + 2)]  # fmt: skip
    for name in gateways:
        cells = [_cell(cpu_us(samples, name, load)) for load in loads]
        mine = [s for s in samples if s["gateway"] == name]
        bad = sum(s["wrong"] + s["broken"] + s["stuck"] for s in mine)
        memory = max((s["rss_mb"] or 0 for s in mine), default=0)
        lines.append(f"| {name} | {' | '.join(cells)} | {bad} | {memory:.0f} |")
    budget = " | ".join(str(_BUDGET_US.get(load, "")) for load in loads)
    lines.append(f"| *budget* | {budget} | 0 | 200 |")
    return "\n".join(lines)


def _latency_table(samples: Sequence[Mapping[str, Any]], gateways: Sequence[str]) -> str:
    lines = ["| gateway | requests/s | added p50 | added p99 | wrong or late |",
             "|---|--:|--:|--:|--:|"]  # fmt: skip
    for name in gateways:
        load = f"quarter-{name}"
        mine = {s["round"]: s for s in _of(samples, name, load) if "total" in s}
        direct = {s["round"]: s for s in _of(samples, "direct", load) if "total" in s}
        both = sorted(mine.keys() & direct.keys())
        if not both:
            lines.append(f"| {name} | | unknown | unknown | |")
            continue
        p50, p99 = (
            statistics.median(mine[n]["total"][at] - direct[n]["total"][at] for n in both)
            for at in ("p50_us", "p99_us")
        )
        bad = sum(mine[n]["wrong"] + mine[n]["broken"] for n in both)
        late = sum(mine[n]["late"] for n in both)
        rate = statistics.median(mine[n]["rate"] for n in both)
        lines.append(f"| {name} | {rate:.0f} | {p50:.0f} | {p99:.0f} | {bad} / {late} |")
    return "\n".join(lines)


def _alone_table(samples: Sequence[Mapping[str, Any]], gateways: Sequence[str]) -> str:
    lines = [
        "| gateway | whole answer, p50 µs | first byte of a stream, p50 µs | its end, p50 µs |",
        "|---|--:|--:|--:|",
    ]
    for name in gateways:
        cells = [
            _median(samples, name, "json-alone", "total"),
            _median(samples, name, "stream-alone", "first"),
            _median(samples, name, "stream-alone", "total"),
        ]
        lines.append(f"| {name} | {' | '.join(map(_cell, cells))} |")
    return "\n".join(lines)


def _crowd(samples: Sequence[Mapping[str, Any]], gateways: Sequence[str]) -> Sequence[str]:
    """Whether anybody is kept waiting while others are served."""
    lines = []
    for name in gateways:
        found = [s for s in _of(samples, name, "crowd") if "first" in s]
        if found:
            p50, p99, longest = (
                statistics.median(s["first"][at] / 1000 for s in found)
                for at in ("p50_us", "p99_us", "max_us")
            )
            end = statistics.median(s["total"]["max_us"] / 1000 for s in found)
            lines.append(f"| {name} | {p50:,.0f} | {p99:,.0f} | {longest:,.0f} | {end:,.0f} |")
    if not lines:
        return ()
    return (
        "## A thousand clients at a time, from one moment on",
        "",
        "Each reads a stream of 50 chunks, 10 ms apart, and asks again. Milliseconds, medians over "
        "rounds; the longest is of all of a round's requests.",
        "",
        "| gateway | first byte, p50 | p99 | longest | a stream's end, longest |",
        "|---|--:|--:|--:|--:|",
        *lines,
        "",
    )


def _median(
    samples: Sequence[Mapping[str, Any]], gateway: str, load: str, what: str
) -> float | None:
    found = [s[what]["p50_us"] for s in _of(samples, gateway, load) if what in s]
    return statistics.median(found) if found else None


def _of(samples: Sequence[Mapping[str, Any]], gateway: str, load: str) -> list[Mapping[str, Any]]:
    return [s for s in samples if s["gateway"] == gateway and s["load"] == load]


def _cell(figure: float | None) -> str:
    return "none answered" if figure is None else f"{figure:,.0f}"
