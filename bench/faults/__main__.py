"""`python -m bench.faults`."""

import asyncio
import shlex
import signal
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from bench.errors import BenchError
from bench.faults.catalogue import FAULTS, Fault
from bench.faults.judge import Verdict
from bench.faults.report import write_results
from bench.faults.run import Skipped, Suite
from bench.faults.traffic import Traffic
from bench.faults.world import WorldOptions, running_world
from bench.soak.environment import environment

_COULD_NOT_START = 3
_POSTGRES_FAULTS = ("nothing", "engine-killed", "postgres-crashed", "postgres-hung")


@click.command(context_settings={"show_default": True})
@click.option(
    "--cache",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path(".foreword/cache"),
    help="Where the engine is or will be installed.",
)
@click.option("--model", default=None, help="A folder or name, as of `foreword up`.")
@click.option("--simulated", is_flag=True, help="Simulated engines, and no tiers.")
@click.option(
    "--only",
    multiple=True,
    type=click.Choice([fault.name for fault in FAULTS]),
    help="A fault; may be repeated.  [default: all]",
)
@click.option(
    "--database",
    type=click.Choice(["sqlite", "postgres", "both"]),
    default="both",
    help="`both` is a run of all faults on SQLite, and one of some on PostgreSQL.",
)
@click.option("--clients", default=12)
@click.option("--most-tokens", default=128, help="Of an answer.")
@click.option("--folder", type=click.Path(path_type=Path), default=None, help="Keep logs here.")
@click.option("--results", type=click.Path(path_type=Path), default=Path("bench/results"))
@click.option("--name", default=None, help="Of the results.  [default: faults, faults-simulated]")
def main(
    *,
    cache: Path,
    model: str | None,
    simulated: bool,
    only: tuple[str, ...],
    database: str,
    clients: int,
    most_tokens: int,
    folder: Path | None,
    results: Path,
    name: str | None,
) -> None:
    """Hurt a deployment part by part while clients ask, and see what they notice."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    runs = []
    with tempfile.TemporaryDirectory(prefix="fw-faults-") as made:
        for kind in ("sqlite", "postgres") if database == "both" else (database,):
            options = WorldOptions(
                folder=(folder or Path(made)) / kind,
                cache=None if simulated else cache,
                model=model,
                postgres=kind == "postgres",
            )
            wanted = only or (_POSTGRES_FAULTS if kind == "postgres" else ())
            faults = [fault for fault in FAULTS if not wanted or fault.name in wanted]
            try:
                runs.append(
                    asyncio.run(_run(options, faults, clients=clients, most_tokens=most_tokens))
                )
            except BenchError as error:
                click.echo(f"bench.faults: {error}", err=True)
                sys.exit(_COULD_NOT_START)
    stem = results / (name or ("faults-simulated" if simulated else "faults"))
    click.echo(write_results(_result(runs), stem))
    good = all(not verdict["problems"] for run in runs for verdict in run["verdicts"])
    sys.exit(0 if good else 1)


async def _run(
    options: WorldOptions, faults: Sequence[Fault], *, clients: int, most_tokens: int
) -> dict[str, Any]:
    verdicts: list[Verdict]
    skipped: list[Skipped]
    async with running_world(options) as world:
        traffic = Traffic(world.url, world.tenants, clients=clients, most_tokens=most_tokens)
        async with traffic.flowing():
            verdicts, skipped = await Suite(world, traffic, say=_say).all(faults)
    engines = "simulated engines" if options.cache is None else "SGLang on the CPU, LMCache"
    return {
        "title": f"{'PostgreSQL' if options.postgres else 'SQLite'}, two {engines}",
        "model": options.model,
        "clients": clients,
        "verdicts": [verdict.as_json() for verdict in verdicts],
        "skipped": [{"name": one.name, "why": one.why} for one in skipped],
    }


def _result(runs: list[dict[str, Any]]) -> dict[str, Any]:
    command = shlex.join(["python", "-m", "bench.faults", *sys.argv[1:]])
    return {
        "schema_version": 1,
        "kind": "faults",
        "command": command,
        "environment": environment(),
        "runs": runs,
    }


def _say(line: str) -> None:
    click.echo(line, err=True)


if __name__ == "__main__":
    main()
