"""``foreword doctor``: what is wrong here, and what to do about it."""

import json
import os
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import click

from app.stack.checks import Check, Status, run_checks
from app.stack.settings import DEFAULT_CACHE, DEFAULT_HOME, StackSettings

SCHEMA_VERSION = 1
EXIT_FINDINGS = 1


@click.command()
@click.option(
    "--home",
    type=click.Path(path_type=Path),
    envvar="FOREWORD_HOME",
    default=DEFAULT_HOME,
    show_default=True,
    help="The home to look at.",
)
@click.option(
    "--cache",
    type=click.Path(path_type=Path),
    envvar="FOREWORD_CACHE",
    default=DEFAULT_CACHE,
    show_default=True,
    help="The cache to look at.",
)
@click.option(
    "--format", "output", type=click.Choice(["text", "json"]), default="text", show_default=True
)
def doctor(*, home: Path, cache: Path, output: str) -> None:
    """Check folders, engine, cache tiers and gateway, and say what to do.

    The exit status is 1 if there is a problem.
    """
    settings = StackSettings(home=home, cache=cache, base_env=os.environ)
    checks = list(run_checks(settings))
    click.echo(render_json(checks) if output == "json" else render_text(checks))
    if any(check.status is Status.PROBLEM for check in checks):
        sys.exit(EXIT_FINDINGS)


def render_text(checks: Sequence[Check]) -> str:
    """One line per check, advice indented below it."""
    width = max((len(check.name) for check in checks), default=0)
    lines = []
    for check in checks:
        lines.append(f"{check.status:<8} {check.name:<{width}}  {check.found}")
        if check.advice is not None:
            lines.append(f"{'':<8} {'':<{width}}  -> {check.advice}")
    return "\n".join(lines)


def render_json(checks: Sequence[Check]) -> str:
    return json.dumps(
        {"schema_version": SCHEMA_VERSION, "checks": [asdict(check) for check in checks]}, indent=2
    )
