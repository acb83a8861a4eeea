"""`python -m bench.hot_path [NAME=FOLDER …]`: CPU a request, several source trees side by side."""

import asyncio
import statistics
from pathlib import Path
from tempfile import TemporaryDirectory

import click

from bench.hot_path.cpu import rss_mb
from bench.hot_path.processes import running_gateways
from bench.hot_path.run import Plan, measure
from bench.hot_path.workload import Shape

_HERE = Path(__file__).resolve().parents[2]


@click.command(context_settings={"show_default": True})
@click.argument("trees", nargs=-1, metavar="[NAME=FOLDER]...")
@click.option("--shape", "shapes", multiple=True, type=click.Choice([s.value for s in Shape]))
@click.option("--requests", default=300, help="Of each shape in each round.")
@click.option("--rounds", default=5)
@click.option("--connections", default=8)
@click.option("--step-s", default=0.0, help="Real seconds between the chunks of a stream.")
def main(
    trees: tuple[str, ...],
    shapes: tuple[str, ...],
    requests: int,
    rounds: int,
    connections: int,
    step_s: float,
) -> None:
    """Print the median of the rounds, and the least and greatest of them."""
    named = dict(tree.split("=", 1) for tree in trees) or {"here": str(_HERE)}
    plan = Plan(
        shapes=[Shape(shape) for shape in shapes] or list(Shape),
        requests=requests,
        rounds=rounds,
        connections=connections,
    )
    with TemporaryDirectory(prefix="foreword-hot-") as folder:
        paths = {name: Path(tree).resolve() for name, tree in named.items()}
        with running_gateways(paths, Path(folder), step_s=step_s) as gateways:
            costs = asyncio.run(measure(gateways, plan))
            memory = {gateway.name: rss_mb(gateway.pid) for gateway in gateways}
    for (name, shape), values in sorted(costs.items(), key=lambda item: item[0][1]):
        middle = statistics.median(values)
        click.echo(f"{shape:10} {name:8} {middle:7,.0f} µs ({min(values):,.0f}-{max(values):,.0f})")
    for name, megabytes in memory.items():
        click.echo(f"{name}: {megabytes:.0f} MiB resident")


if __name__ == "__main__":
    main()
