"""`python -m bench.beside`: live traffic's time to the first token, with and without a batch."""

import json
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from bench.beside.page import MOST, page, ratio
from bench.beside.run import Plan, measure
from bench.beside.workload import Shape
from bench.soak.environment import environment


@click.command(context_settings={"show_default": True})
@click.option("--rounds", type=click.IntRange(1), default=5)
@click.option("--seconds", type=click.FloatRange(5), default=120.0, help="Of one window.")
@click.option(
    "--beside",
    "arms",
    multiple=True,
    type=click.IntRange(1),
    default=(1, 8),
    help="Lines of batches that are answered beside others; may be repeated.",
)
@click.option("--rate", type=click.FloatRange(0.1), default=1.0, help="Live requests a second.")
@click.option("--prefill-tokens-per-s", type=click.FloatRange(100), default=3000.0)
@click.option("--pool-tokens", type=click.IntRange(10_000), default=48_000)
@click.option("--out", type=click.Path(path_type=Path), default=Path("bench/results/beside.json"))
def main(
    *,
    rounds: int,
    seconds: float,
    arms: tuple[int, ...],
    rate: float,
    prefill_tokens_per_s: float,
    pool_tokens: int,
    out: Path,
) -> None:
    """Run the windows; write each one's record and the page. Exit 1: the goal was missed."""
    plan = Plan(
        rounds=rounds,
        seconds=seconds,
        prefill_tokens_per_s=prefill_tokens_per_s,
        pool_tokens=pool_tokens,
        arms=(0, *arms),
    )
    shape, windows = Shape(rate=rate), list[dict[str, Any]]()

    def keep(window: dict[str, Any]) -> None:
        windows.append(window)
        click.echo(
            f"{len(windows)} of {rounds * len(plan.arms)}: {window['lines']} lines", err=True
        )

    with tempfile.TemporaryDirectory(prefix="foreword-beside-") as folder:
        measure(plan, shape, Path(folder), keep)
    result = {
        "plan": asdict(plan),
        "shape": asdict(shape),
        "environment": environment(),
        "windows": windows,
    }
    out.write_text(json.dumps(result) + "\n")
    out.with_suffix(".md").write_text(page(result))
    click.echo(out.with_suffix(".md").read_text())
    if ratio(result, arms[0]) > MOST:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
