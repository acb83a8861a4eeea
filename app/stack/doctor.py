"""``foreword doctor``: what is wrong here, and what to do about it."""

import json
import os
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import click

from app.stack.check import Check, Status, problem
from app.stack.checks import run_checks, running_facts
from app.stack.paths import HomePaths, resolve
from app.stack.settings import DEFAULT_CACHE, DEFAULT_HOME, StackSettings

SCHEMA_VERSION = 1
EXIT_FINDINGS = 1
EXIT_INTERRUPTED = 130
PROVING = (
    "proving isolation: the engine's cache and the tiers' RAM are emptied several times, so that "
    "requests are computed or loaded again for a while; tiers are switched off for moments"
)


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
    "--prove",
    is_flag=True,
    help="Also prove on the running stack that each tier keeps tenants apart and loses nothing. "
    "Empties the engine's cache and the tiers' RAM.",
)
@click.option("--force", is_flag=True, help="Prove also while the engine has requests.")
@click.option("--engine-url", help="Prove on this engine.  [default: the home's running stack]")
@click.option("--tiers-url", help="The tier server's HTTP port, with --engine-url.")
@click.option(
    "--format", "output", type=click.Choice(["text", "json"]), default="text", show_default=True
)
def doctor(
    *,
    home: Path,
    cache: Path,
    prove: bool,
    force: bool,
    engine_url: str | None,
    tiers_url: str | None,
    output: str,
) -> None:
    """Check folders, engine, cache tiers and gateway, and say what to do.

    The exit status is 1 if there is a problem.
    """
    if not prove and (force or engine_url or tiers_url):
        raise click.UsageError("--force, --engine-url and --tiers-url go with --prove.")
    if tiers_url and not engine_url:
        raise click.UsageError("--tiers-url needs --engine-url: both are of one stack.")
    settings = StackSettings(home=home, cache=cache, base_env=os.environ)
    checks = [] if engine_url else list(run_checks(settings))
    finished = not prove or _prove(home, engine_url, tiers_url, force=force, checks=checks)
    click.echo(render_json(checks) if output == "json" else render_text(checks))
    if not finished:
        sys.exit(EXIT_INTERRUPTED)
    if any(check.status is Status.PROBLEM for check in checks):
        sys.exit(EXIT_FINDINGS)


def _prove(
    home: Path, engine_url: str | None, tiers_url: str | None, *, force: bool, checks: list[Check]
) -> bool:
    """Adds what the proofs show; False if a signal ended them."""
    # Only here: without --prove the doctor needs no HTTP client of the gateway's.
    from app.stack.proofs import Addresses, run_proofs

    if engine_url is None:
        facts = running_facts(HomePaths(resolve(home)))
        if facts is None:
            found = "not made: no stack runs in this home"
            checks.append(problem("proofs", found, "`foreword up`, or give --engine-url"))
            return True
        engine_url, tiers_url = facts.engine_url, facts.tier_url
    click.echo(PROVING, err=True)
    addresses = Addresses(engine=engine_url.rstrip("/"), tiers=tiers_url)

    def tell(check: Check) -> None:
        checks.append(check)
        click.echo(f"  {check.name}: {check.status}", err=True)

    return run_proofs(addresses, force=force, tell=tell)


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
