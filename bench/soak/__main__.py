"""`python -m bench.soak`."""

import asyncio
import sys
from pathlib import Path

import click

from bench.errors import BenchError
from bench.soak.ledger_checks import find, open_ledger
from bench.soak.options import SoakOptions
from bench.soak.report import write_result
from bench.soak.result import result_of
from bench.soak.run import soak_through

_COULD_NOT_START = 3


@click.command(context_settings={"show_default": True})
@click.option("--requests", default=1_000_000, help="Over all lives of this soak.")
@click.option("--workers", default=16, help="Clients at a time.")
@click.option("--stretches", default=40, help="Samples over the whole soak.")
@click.option("--probes", default=30, help="Pairs of single requests after each stretch.")
@click.option("--max-pages", default=50_000, help="Bound of the gateway's prefix index.")
@click.option("--seed", default=1)
@click.option("--accounting/--no-accounting", default=True)
@click.option(
    "--folder",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path(".foreword/soak"),
    help="State; a soak that is there is taken up again.",
)
@click.option("--name", default="soak", help="Of the files under bench/results.")
@click.option(
    "--results",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("bench/results"),
)
def main(
    *,
    requests: int,
    workers: int,
    stretches: int,
    probes: int,
    max_pages: int,
    seed: int,
    accounting: bool,
    folder: Path,
    name: str,
    results: Path,
) -> None:
    """Ask the gateway a great many things and see whether it stays the same size.

    Interrupt it once to end it after the stretch under way, with a result; the same command goes
    on from there.
    """
    options = SoakOptions(
        folder=folder,
        requests=requests,
        workers=workers,
        stretches=stretches,
        probes=probes,
        max_pages=max_pages,
        seed=seed,
        accounting=accounting,
    )
    try:
        life, samples = asyncio.run(soak_through(options, say=_say))
    except BenchError as error:
        click.echo(f"soak: {error}", err=True)
        sys.exit(_COULD_NOT_START)
    engine = open_ledger(folder.resolve() / "home" / "foreword.db")
    result = result_of(options, life, samples, find(engine))
    click.echo(write_result(result, samples, results / name))
    sys.exit(0 if result.good else 1)


def _say(line: str) -> None:
    click.echo(line, err=True)


if __name__ == "__main__":
    main()
