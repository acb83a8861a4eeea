"""The pages of results, made from their JSON alone. Pure."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

Row = Mapping[str, Any]
OURS = "least-ttft"
PEER = "sglang cache_aware (model)"
# Goals: share of the pooled cache's hits, worst imbalance, mean TTFT against the peer's.
GOALS = {"conversation": (0.97, 1.9, 0.7), "synthetic": (0.99, 1.9, 0.85)}
MOST_LOST = 0.05


def simulation_page(result: Mapping[str, Any]) -> str:
    """Grid, robustness and the shared scaffold."""
    measured = result["measured"]
    lines = [
        "# Routing, simulated",
        "",
        "Published traces over replicas with a radix LRU of 512-token blocks and a prefill clock, "
        "in simulated time: the same figures on any machine. `bench/README.md` says how. Hits are "
        "shares of prompt tokens; *of pooled* is against one LRU as large as all caches together; "
        "imbalance is that of prompt tokens in the worst 60 s; TTFT is queueing and prefill. "
        "*Bound* is no router: all KV is on every replica at once, for nothing, and each request "
        "goes where it waits least; its imbalance is no goal.",
        "",
        "## Goals",
        "",
        *_goals(measured["grid"]),
        "",
    ]
    for part, title in (("second_half", "The second half"), ("all", "All requests")):
        lines += [f"## {title}", "", *_grid(measured["grid"], part), ""]
    lines += ["## Wrong or missing knowledge", "", *_robustness(measured["robustness"]), ""]
    lines += ["## One scaffold for all", "", *_scaffold(measured["shared_scaffold"]), ""]
    return "\n".join([*lines, *environment_line(result)])


def _goals(grid: Sequence[Row]) -> Iterator[str]:
    head = ["trace", "scored", "hits of pooled", "imbalance", "mean TTFT against the peer's"]
    rows = []
    for trace, (hits, imbalance, ttft) in GOALS.items():
        for part in ("second_half", "all"):
            scores = [s for s in _scores(grid, part) if s["trace"] == trace]
            if scores:
                rows.append(
                    [
                        trace,
                        part.replace("_", " "),
                        _met([s["of_pooled"] for s in scores], least=hits),
                        _met([s["imbalance"] for s in scores], most=imbalance),
                        _met([s["of_peer"] for s in scores], most=ttft),
                    ]
                )
    return table(head, rows)


def _scores(grid: Sequence[Row], part: str) -> Iterator[dict[str, Any]]:
    """Ours in each cell, against the pooled cache and the peer."""
    peers = {_cell(row): row[part] for row in grid if row["router"] == PEER}
    for row in grid:
        if row["router"] == OURS:
            mine = row[part]
            yield {
                "trace": row["trace"],
                "of_pooled": mine["hit_rate"] / mine["pooled"],
                "imbalance": mine["imbalance"],
                "of_peer": mine["ttft_mean_s"] / peers[_cell(row)]["ttft_mean_s"],
            }


def _cell(row: Row) -> tuple[str, int, int]:
    return row["trace"], row["replicas"], row["capacity_blocks"]


def _met(values: Sequence[float], *, least: float | None = None, most: float | None = None) -> str:
    """How many cells meet a goal, and the worst of them."""
    if least is not None:
        met, worst, goal = sum(v >= least for v in values), min(values), f"≥ {least}"
    else:
        assert most is not None
        met, worst, goal = sum(v <= most for v in values), max(values), f"≤ {most}"
    return f"{goal} in {met} of {len(values)}; worst {worst:.3f}"


def _grid(grid: Sequence[Row], part: str) -> Iterator[str]:
    head = ["trace", "replicas", "blocks each", "router", "hits", "of pooled", "of infinite"]
    head += ["imbalance", "TTFT mean s", "p50", "p99", "against the peer's"]
    peers = {_cell(row): row[part]["ttft_mean_s"] for row in grid if row["router"] == PEER}
    rows = []
    for row in grid:
        outcome = row[part]
        rows.append(
            [
                row["trace"],
                str(row["replicas"]),
                f"{row['capacity_blocks']:,}",
                f"**{row['router']}**" if row["router"] == OURS else row["router"],
                f"{outcome['hit_rate']:.4f}",
                f"{outcome['hit_rate'] / outcome['pooled']:.1%}",
                f"{outcome['hit_rate'] / outcome['infinite']:.1%}",
                f"{outcome['imbalance']:.2f}",
                f"{outcome['ttft_mean_s']:.2f}",
                f"{outcome['ttft_p50_s']:.2f}",
                f"{outcome['ttft_p99_s']:.2f}",
                f"{outcome['ttft_mean_s'] / peers[_cell(row)]:.2f}",
            ]
        )
    return table(head, rows)


def _robustness(rows: Sequence[Row]) -> Iterator[str]:
    head = ["trace", "what the gateway knows", "hits", "lost", "imbalance", "TTFT mean s"]
    return table(
        head,
        (
            [
                row["trace"],
                row["knowledge"],
                f"{row['hit_rate']:.4f}",
                f"{row['lost_share']:+.1%}" + (" **!**" if row["lost_share"] > MOST_LOST else ""),
                f"{row['imbalance']:.2f}",
                f"{row['ttft_mean_s']:.2f}",
            ]
            for row in rows
        ),
    )


def _scaffold(rows: Sequence[Row]) -> Iterator[str]:
    head = ["replicas", "router", "hold the scaffold at the end", "hits", "of pooled", "imbalance"]
    head += ["TTFT mean s", "p99"]
    return table(
        head,
        (
            [
                str(row["replicas"]),
                row["router"],
                f"{row['holders']} of {row['replicas']}",
                f"{row['hit_rate']:.4f}",
                f"{row['hit_rate'] / row['pooled']:.1%}",
                f"{row['imbalance']:.2f}",
                f"{row['ttft_mean_s']:.2f}",
                f"{row['ttft_p99_s']:.2f}",
            ]
            for row in rows
        ),
    )


def live_page(result: Mapping[str, Any]) -> str:
    """Real routers before simulated engines."""
    options, outcomes = result["options"], result["measured"]
    peers = [o["ttft_mean_s"] for o in outcomes if "sglang-router" in o["router"]]
    head = ["router", "hits", "imbalance", "TTFT mean s", "p50", "p99", "of sglang-router's"]
    head += ["client saw", "failed", "came late by s, mean"]
    lines = [
        f"# Routers, live: {options['trace']}",
        "",
        f"The first {options['requests']:,} requests of the trace over HTTP to "
        f"{options['num_replicas']} simulated engines with {options['capacity_blocks']:,} blocks "
        f"each, at {options['speedup']:g} times the trace's speed; times are the trace's. Each "
        "router has its own engines, started anew. Where requests went and what they found there "
        "is as it happened; TTFT is the engines' prefill clocks over that, so that a busy machine "
        "can't decide; what the client saw stands beside it.",
        "",
        *table(
            head,
            (
                [
                    o["router"],
                    f"{o['hit_rate']:.4f}",
                    f"{o['imbalance']:.2f}",
                    f"{o['ttft_mean_s']:.2f}",
                    f"{o['ttft_p50_s']:.2f}",
                    f"{o['ttft_p99_s']:.2f}",
                    f"{o['ttft_mean_s'] / peers[0]:.2f}" if peers else "-",
                    "-" if o["client_ttft_mean_s"] is None else f"{o['client_ttft_mean_s']:.2f}",
                    f"{o['failed']} of {o['requests']}",
                    f"{o['late_mean_s']:.2f}",
                ]
                for o in outcomes
            ),
        ),
        "",
    ]
    return "\n".join([*lines, *environment_line(result)])


def environment_line(result: Mapping[str, Any]) -> Iterator[str]:
    """Where it was measured."""
    environment = result["environment"]
    yield (
        f"Commit {environment['commit']}, Python {environment['python']}, "
        f"{environment['cores']} cores, load average "
        f"{', '.join(str(load) for load in environment['load_average'])}."
    )
    yield ""


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """In Markdown."""
    yield f"| {' | '.join(head)} |"
    yield "|---" * len(head) + "|"
    for row in rows:
        yield f"| {' | '.join(row)} |"
