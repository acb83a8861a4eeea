"""`foreword report`: what was re-used, what could have been, and why the rest was lost."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from app.commands.gateway import checked, gateway, gateway_options

_FORMATS = ("text", "json", "markdown", "html")


@click.command()
@click.option("--since", help="only requests since then: 15m, 24h, 7d, or a date and time")
@click.option("--until", help="only requests before then, likewise")
@click.option("--by", default="template", show_default=True, help="groups, comma-separated")
@click.option("--top", type=click.IntRange(1, 1000), default=20, show_default=True,
              help="groups shown; the others are added up")  # fmt: skip
@click.option("--format", "output", type=click.Choice(_FORMATS), default="text", show_default=True)
@click.option("--html", "page", type=click.Path(path_type=Path, dir_okay=False),
              help="write the page with plots there, too")  # fmt: skip
@click.option("--fail-under", multiple=True, metavar="RATE|TEMPLATE=RATE",
              help="exit with 1 if a template's hit rate is lower: 0.6, docqa=80%")  # fmt: skip
@click.option("--fail-unknown", is_flag=True,
              help="also when a template with a budget has no known figures")  # fmt: skip
@click.option("--price-per-gpu-hour", type=click.FloatRange(min=0),
              help="to tell savings in money, too")  # fmt: skip
@gateway_options
def report(
    output: str,
    page: Path | None,
    fail_unknown: bool,
    url: str | None,
    home: Path,
    **asked: Any,
) -> None:
    """How much of the prompts was re-used, how much could have been, and why the rest was lost.

    Figures that the engine didn't report are shown as unknown, never as 0. The exit status is 1
    when a template is under its budget (--fail-under), with a line for each on stderr.
    """
    forms = [output, *(["html"] if page else [])]
    parameters = {name: value for name, value in asked.items() if value not in (None, ())}
    with gateway(url, home) as client:
        query = parameters | {"forms": ",".join(forms)}
        answer = checked(client.get("/foreword/report", params=query)).json()
    if page is not None:
        _write(page, answer["forms"]["html"])
    click.echo(answer["forms"][output].rstrip("\n"))
    if _tell_budgets(answer["report"]["alerts"]["budgets"], fail_unknown=fail_unknown):
        raise click.exceptions.Exit(1)


def _write(page: Path, text: str) -> None:
    try:
        page.write_text(text, "utf-8")
    except OSError as error:
        problem = f"the page can't be written: {error.strerror or error}"
        raise click.BadParameter(problem, param_hint="--html") from error
    click.echo(f"wrote {page}", err=True)


def _tell_budgets(checks: list[Mapping[str, Any]], *, fail_unknown: bool) -> bool:
    """A line for each template that isn't known to keep its budget; whether any is a failure."""
    failed = False
    for check in checks:
        failing = check["status"] == "under" or (fail_unknown and check["status"] != "met")
        failed = failed or failing
        if check["status"] != "met":
            click.echo(f"{'fail' if failing else 'note'}: {_budget_line(check)}", err=True)
    return failed


def _budget_line(check: Mapping[str, Any]) -> str:
    name = "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in check["template"])
    wanted = f"wanted {100 * check['budget']:g} %"
    match check["status"]:
        case "under":
            rate = 100 * check["hit_rate"]
            return f"{name} is under its budget: hit rate {rate:.2f} %, {wanted}"
        case "unknown":
            return f"{name} has no known figures, {wanted} ({check['requests']} requests)"
        case _:
            return f"{name} had no request in this time, {wanted}"
