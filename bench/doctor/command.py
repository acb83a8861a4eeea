"""`foreword bench doctor`: is this machine quiet enough to measure on?"""

import json
import sys
from dataclasses import asdict

import click

from bench.doctor.judged import Finding, is_quiet, judge
from bench.doctor.readings import read_machine

_MARKS = {True: "ok ", False: "BAD", None: "?  "}


@click.command()
@click.option(
    "--seconds",
    type=click.FloatRange(min=0.5),
    default=4.0,
    show_default=True,
    help="How long to watch.",
)
@click.option("--json", "as_json", is_flag=True, help="Print readings and findings as JSON.")
def doctor(*, seconds: float, as_json: bool) -> None:
    """Look at load, stolen time, timers, speed, processes and memory; exit code 1 if not quiet."""
    readings = read_machine(seconds)
    findings = judge(readings)
    quiet = is_quiet(findings)
    if as_json:
        told = {
            "quiet": quiet,
            "findings": [asdict(finding) for finding in findings],
            "readings": asdict(readings),
        }
        click.echo(json.dumps(told, indent=1))
    else:
        for finding in findings:
            click.echo(_line(finding))
        click.echo(
            "The machine is quiet enough."
            if quiet
            else "The machine is NOT quiet enough: figures of time would say more of it than of "
            "what is measured."
        )
    sys.exit(0 if quiet else 1)


def _line(finding: Finding) -> str:
    advice = f"  -> {finding.advice}" if finding.quiet is False else ""
    return f"{_MARKS[finding.quiet]} {finding.what}: {finding.told}{advice}"
