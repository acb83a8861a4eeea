"""`python -m bench.gateway`: Foreword beside nginx, sglang-router, smg and LiteLLM."""

import json
import os
import platform
import sys
import tempfile
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import click

from bench.errors import BenchError
from bench.gateway.peers import peers
from bench.gateway.report import page
from bench.gateway.rounds import Plan, measure


@click.command(context_settings={"show_default": True})
@click.option("--only", multiple=True, help="Just this gateway; may be repeated.")
@click.option("--rounds", type=click.IntRange(1), default=5)
@click.option("--seconds", type=click.FloatRange(0.5), default=6.0, help="Of one window.")
@click.option(
    "--venvs",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path(".foreword/bench-venvs"),
    help="Where the other gateways are installed.",
)
@click.option("--out", type=click.Path(path_type=Path), default=Path("bench/results/gateway.json"))
def main(*, only: tuple[str, ...], rounds: int, seconds: float, venvs: Path, out: Path) -> None:
    """Start each gateway, ask all in turns, write the figures and their page."""
    try:
        with tempfile.TemporaryDirectory(prefix="foreword-bench-") as folder:
            chosen = peers(venvs.absolute(), only=only)
            plan = Plan(rounds=rounds, seconds=seconds)
            measure(chosen, plan, Path(folder), _say, partial(_keep, out))
    except BenchError as error:
        click.echo(f"bench.gateway: {error}", err=True)
        sys.exit(3)
    click.echo(out.with_suffix(".md").read_text())


def _say(text: str) -> None:
    click.echo(text, err=True)


def _keep(out: Path, raw: Mapping[str, Any]) -> None:
    python = sys.version.split()[0]
    machine = f"{os.cpu_count()} cores, {platform.machine()}, Python {python}"
    told = {**raw, "machine": machine}
    out.write_text(json.dumps(told, indent=1) + "\n")
    out.with_suffix(".md").write_text(page(told))


if __name__ == "__main__":
    main()
