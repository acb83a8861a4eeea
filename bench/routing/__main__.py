"""`python -m bench.routing simulate`, `live`, `gateways` and `real`."""

import asyncio
import json
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, NoReturn

import click

from bench.errors import BenchError, TraceNotFoundError
from bench.rag_cag.stacks import UpOptions
from bench.routing import gateways as several
from bench.routing import scenarios, tables
from bench.routing.contenders import contenders, running_contender
from bench.routing.live import TOKENS_A_BLOCK, LiveOptions, drive
from bench.routing.real import real_rounds
from bench.routing.real_page import real_page
from bench.routing.replicas import running_engines
from bench.routing.sessions import Sizes
from bench.routing.traces import BLOCK_TOKENS
from bench.routing.workloads import WORKLOADS, Cell
from bench.soak.environment import environment
from bench.soak.model_folder import write_model_folder

_COULD_NOT_START = 3
_FOLDER = click.Path(path_type=Path, file_okay=False)
_TRACES = click.option("--traces", type=_FOLDER, required=True, help="Folder of mooncake_*.jsonl.")
_RESULTS = click.option("--results", type=_FOLDER, default=Path("bench/results"))

_VENVS = click.option(
    "--venvs",
    type=_FOLDER,
    default=Path(".foreword/bench-venvs"),
    help="Environments sglang-router and smg; one that isn't there is left out.",
)


@click.group(context_settings={"show_default": True})
def main() -> None:
    """Compare routing policies and routers."""


@main.command()
@_TRACES
@_RESULTS
@click.option("--jobs", default=1, help="Processes.")
def simulate(*, traces: Path, results: Path, jobs: int) -> None:
    """Replay traces over simulated fleets, in simulated time."""
    if not any((traces / workload.file).exists() for workload in WORKLOADS):
        _refuse(TraceNotFoundError(traces))
    measured = {
        "grid": scenarios.grid(traces, jobs=jobs),
        "robustness": scenarios.robustness(traces, jobs=jobs),
        "shared_scaffold": scenarios.shared_scaffold(jobs=jobs),
    }
    _write("routing-simulation", measured, {}, results, tables.simulation_page)


@main.command()
@_TRACES
@_RESULTS
@click.option("--trace", "name", type=click.Choice([w.name for w in WORKLOADS]), required=True)
@click.option("--replicas", default=4, help="Simulated engines.")
@click.option("--capacity", default=1600, help="Blocks in each one's pool.")
@click.option("--requests", default=1000, help="From the trace's beginning.")
@click.option("--speedup", default=4.0, help="Seconds of the trace in a real one.")
@click.option("--only", multiple=True, help="Contenders whose name has this in it.")
@_VENVS
def live(
    *,
    traces: Path,
    results: Path,
    name: str,
    replicas: int,
    capacity: int,
    requests: int,
    speedup: float,
    only: tuple[str, ...],
    venvs: Path,
) -> None:
    """Send a trace through real routers to simulated engines over HTTP."""
    workload = next(w for w in WORKLOADS if w.name == name)
    cell = Cell(workload=workload, num_replicas=replicas, capacity=capacity)
    if not (traces / workload.file).exists():
        _refuse(TraceNotFoundError(traces))
    arrivals = cell.arrivals(traces)[:requests]
    prefill_tokens_per_s = workload.prefill_tokens_per_s * TOKENS_A_BLOCK / BLOCK_TOKENS
    options = LiveOptions(
        num_replicas=replicas,
        requests=requests,
        prefill_tokens_per_s=prefill_tokens_per_s,
        speedup=speedup,
    )
    outcomes = []
    with tempfile.TemporaryDirectory(prefix="foreword-routing-") as made:
        folder = Path(made)
        model = write_model_folder(folder / "model")
        for contender in contenders(venvs.absolute()):
            if only and not any(part in contender.name for part in only):
                continue
            place = folder / contender.name.replace(" ", "-")
            try:
                with (
                    running_engines(
                        replicas,
                        place,
                        model,
                        pool_tokens=capacity * TOKENS_A_BLOCK,
                        prefill_tokens_per_s=prefill_tokens_per_s,
                        speedup=speedup,
                    ) as ports,
                    running_contender(contender, ports, place) as running,
                ):
                    outcomes.append(asdict(asyncio.run(drive(arrivals, running, options))))
            except BenchError as error:
                _refuse(error)
            click.echo(json.dumps(outcomes[-1]), err=True)
    asked = {"trace": name, "capacity_blocks": capacity} | asdict(options)
    _write(f"routing-live-{name}", outcomes, asked, results, tables.live_page)


@main.command()
@_TRACES
@_RESULTS
@click.option("--replicas", default=4, help="Simulated engines, live.")
@click.option("--requests", default=1000, help="From the middle of each trace on, live.")
@click.option("--speedup", default=6.0, help="Seconds of the trace in a real one.")
def gateways(*, traces: Path, results: Path, replicas: int, requests: int, speedup: float) -> None:
    """Several gateways before the same replicas, against one; needs redis-server."""
    workloads = [w for w in WORKLOADS if (traces / w.file).exists()]
    if not workloads:
        _refuse(TraceNotFoundError(traces))
    measured: dict[str, list[scenarios.Row]] = {"live": []}
    measured["simulated"] = list(several.simulated(traces))
    for workload in workloads:
        capacity = workload.capacities[1]
        cell = Cell(workload=workload, num_replicas=replicas, capacity=capacity)
        try:
            measured["live"] += several.live(
                cell,
                traces,
                requests=requests,
                speedup=speedup,
                tell=lambda row: click.echo(json.dumps(row), err=True),
            )
        except BenchError as error:
            _refuse(error)
    asked = {"num_replicas": replicas, "requests": requests, "speedup": speedup}
    _write("routing-gateways", measured, asked, results, several.page)


@main.command()
@_RESULTS
@_VENVS
@click.option("--cache", type=_FOLDER, default=Path(".foreword/cache"), help="Engine and models.")
@click.option("--model", default=None, help="A folder or name, as of `foreword up`.")
@click.option("--replicas", default=2, help="Engines.")
@click.option("--pool-tokens", default=10_000, help="Of each engine.")
@click.option("--rounds", default=3, help="Of each router, in turn.")
def real(
    *,
    results: Path,
    venvs: Path,
    cache: Path,
    model: str | None,
    replicas: int,
    pool_tokens: int,
    rounds: int,
) -> None:
    """Send agents and document questions through real routers to real engines on the CPU."""
    up = UpOptions(
        cache=cache, pool_tokens=pool_tokens, model=model, replicas=replicas, tiers=False
    )
    compared = [c for c in contenders(venvs.absolute()) if not c.name.startswith("smg")]
    sizes = Sizes()
    try:
        rows = real_rounds(
            up,
            compared,
            sizes,
            rounds=rounds,
            tell=lambda row: click.echo(json.dumps(row), err=True),
        )
    except BenchError as error:
        _refuse(error)
    asked = {"replicas": replicas, "pool_tokens": pool_tokens} | asdict(sizes)
    asked |= {"model": Path(model).name if model else "the default"}
    _write("routing-real", rows, asked, results, real_page)


def _refuse(error: BenchError) -> NoReturn:
    click.echo(f"routing: {error}", err=True)
    sys.exit(_COULD_NOT_START)


def _write(
    name: str,
    measured: Any,
    options: Mapping[str, Any],
    results: Path,
    page_of: Callable[[Mapping[str, Any]], str],
) -> None:
    """The result as JSON, and a page made from it."""
    result = {
        "schema_version": 1,
        "kind": name,
        "options": dict(options),
        "environment": environment(),
        "measured": measured,
    }
    results.mkdir(parents=True, exist_ok=True)
    text = json.dumps(result, indent=1, ensure_ascii=False)
    (results / f"{name}.json").write_text(text + "\n")
    page = page_of(result)
    (results / f"{name}.md").write_text(page)
    click.echo(page)


if __name__ == "__main__":
    main()
