"""`python -m bench.load.overhead`: how late the load generator itself is, at a rate.

An engine that costs nothing answers (`bench/gateway/upstream.c`), on another core where there are
two, so that what is late is the generator or the machine's other work.
"""

import json
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from bench.errors import BenchError
from bench.gateway.measure import build_tools, running_upstream
from bench.load.priority import REAL_TIME
from bench.load.run import Plan, run_plan
from bench.load.validity import Bounds, lag_p99_s
from bench.run_folder import Load, RequestLine
from bench.soak.environment import environment
from bench.workloads import Workload, english_words, make_workload
from bench.workloads.prefix_repetition import PrefixRepetition, prefix_repetition

NAME = "generator-overhead"
GOAL_S = 0.002
_CHUNKS = 8
_GAP_MS = 5


@click.command(context_settings={"show_default": True})
@click.option("--rate", default=500.0, help="Requests a second.")
@click.option("--requests", default=10_000, help="Of each run.")
@click.option("--results", type=click.Path(path_type=Path), default=Path("bench/results"))
def main(*, rate: float, requests: int, results: Path) -> None:
    """Send at a rate with the priority that is permitted, and without; needs a C compiler."""
    spec = PrefixRepetition(prefix_len=200, suffix_len=50, output_len=_CHUNKS, num_prompts=requests)
    asked = prefix_repetition(spec, english_words(), 1)
    workload = make_workload("overhead", asked, seed=1, parameters={})
    measured = []
    try:
        with tempfile.TemporaryDirectory(prefix="foreword-overhead-") as made:
            tools = build_tools(Path(made), chunks=_CHUNKS)
            with running_upstream(tools, Path(made), gap_ms=_GAP_MS) as port:
                for arrivals in ("poisson", "constant"):
                    for real_time in (True, False):
                        load = Load(kind=arrivals, rate_per_s=rate)
                        folder = Path(made) / f"{arrivals}-{real_time}"
                        measured.append(_one(workload, load, port, folder, real_time=real_time))
    except BenchError as error:
        raise click.ClickException(str(error)) from error
    result = {"schema_version": 1, "rate_per_s": rate, "requests": requests,
              "environment": environment(), "measured": measured}  # fmt: skip
    results.mkdir(parents=True, exist_ok=True)
    (results / f"{NAME}.json").write_text(json.dumps(result, indent=1) + "\n")
    page = "\n".join(page_lines(result)) + "\n"
    (results / f"{NAME}.md").write_text(page)
    click.echo(page)


def _one(
    workload: Workload, load: Load, port: int, folder: Path, *, real_time: bool
) -> dict[str, Any]:
    facts, lines = run_plan(
        Plan(
            url=f"http://127.0.0.1:{port}",
            folder=folder,
            workload=workload,
            load=load,
            model="bench",
            real_time=real_time,
            bounds=Bounds(max_lag_s=float("inf")),
        )
    )
    return {
        "arrivals": load.kind,
        "generator": facts.generator,
        "failed": sum(not line.ok for line in lines),
        "load_average": facts.load_average,
        **lateness_s(lines),
    }


def lateness_s(lines: Sequence[RequestLine]) -> dict[str, float | None]:
    """How much later than scheduled requests were sent."""
    late = sorted(
        line.sent_s - line.scheduled_s
        for line in lines
        if line.sent_s is not None and line.scheduled_s is not None
    )
    return {
        "p50_s": late[len(late) // 2] if late else None,
        "p99_s": lag_p99_s(late),
        "max_s": max(late, default=None),
    }


def page_lines(result: dict[str, Any]) -> list[str]:
    """The result as Markdown."""
    told = result["environment"]
    return [
        "# How late the load generator is",
        "",
        f"{result['requests']:,} requests at {result['rate_per_s']:g}/s, {_CHUNKS} words each, "
        "from an engine that costs nothing. Late is when a request was sent after its time; the "
        f"goal is a p99 of at most {GOAL_S * 1000:g} ms. Where real-time priority isn't permitted, "
        "all rows are ordinary.",
        "",
        "| arrivals | generator | p50, ms | p99, ms | most, ms | goal | failed | load average |",
        "|---|---|--:|--:|--:|---|--:|--:|",
        *(_row(row) for row in result["measured"]),
        "",
        f"Commit {told['commit']}, {told['processor']}, {told['cores']} cores. "
        "`python -m bench.load.overhead`",
    ]


def _row(row: dict[str, Any]) -> str:
    times = [f"{row[name] * 1000:.2f}" for name in ("p50_s", "p99_s", "max_s")]
    met = "met" if row["p99_s"] <= GOAL_S else "missed"
    name = f"**{row['generator']}**" if row["generator"] == REAL_TIME else row["generator"]
    load = f"{row['load_average'][0]:.1f}"
    return "| " + " | ".join([row["arrivals"], name, *times, met, str(row["failed"]), load]) + " |"


if __name__ == "__main__":
    main()
