"""`python -m bench.soak.accounting_cost`: CPU that accounting adds to a request of the gateway.

Two gateways, one with accounting and one without, each before a simulator of its own, take turns
with the same requests; the CPU time of each gateway's process counts, KV events included.
"""

import asyncio
import statistics
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import click

from bench.soak.options import SoakOptions
from bench.soak.run import Soak, soaking

_ROUNDS = 7


async def measure(options: SoakOptions, *, rounds: int) -> dict[str, list[float]]:
    """Microseconds of CPU a request, by `on` and `off`, one figure a round.

    The first round, while caches fill, is left out.
    """
    figures: dict[str, list[float]] = {"on": [], "off": []}
    async with AsyncExitStack() as stack:
        soaks: dict[str, Soak] = {}
        for name in figures:
            folder, on = options.folder / name, name == "on"
            of_its_own = replace(options, folder=folder, accounting=on)
            soaks[name] = await stack.enter_async_context(soaking(of_its_own))
        for number in range(rounds + 1):
            # Whoever goes first meets the neighbours of another moment.
            for name in sorted(soaks, reverse=bool(number % 2)):
                cost = await soaks[name].cpu_us_of(options.requests)
                if number:
                    figures[name].append(cost)
                    click.echo(f"round {number}, accounting {name}: {cost:,.0f} µs", err=True)
    return figures


def difference(on: Sequence[float], off: Sequence[float]) -> tuple[float, float, float]:
    """Median of the rounds' differences, and the least and greatest of them."""
    found = [one - other for one, other in zip(on, off, strict=True)]
    return statistics.median(found), min(found), max(found)


@click.command(context_settings={"show_default": True})
@click.option("--requests", default=1_000, help="Of each gateway in each round.")
@click.option("--rounds", default=_ROUNDS)
@click.option("--workers", default=4)
def main(requests: int, rounds: int, workers: int) -> None:
    """Print what a request costs with accounting and without."""
    with TemporaryDirectory(prefix="foreword-cost-") as folder:
        options = SoakOptions(
            folder=Path(folder), requests=requests, workers=workers, faults=False, seed=3
        )
        figures = asyncio.run(measure(options, rounds=rounds))
    for name, values in figures.items():
        click.echo(f"accounting {name}: {statistics.median(values):,.0f} µs of CPU a request")
    middle, least, most = difference(figures["on"], figures["off"])
    click.echo(f"accounting adds {middle:,.0f} µs (rounds: {least:,.0f} to {most:,.0f})")


if __name__ == "__main__":
    main()
