"""`foreword report`: how much of the prompts was re-used, by template."""

from pathlib import Path

import click

from app.commands.gateway import checked, gateway, gateway_options


@click.command()
@click.option("--since", help="only requests since then: 15m, 24h, 7d, or a date and time")
@click.option("--by", default="template", show_default=True, help="groups, comma-separated")
@click.option("--format", "output", type=click.Choice(["text", "json"]), default="text")
@gateway_options
def report(since: str | None, by: str, output: str, url: str | None, home: Path) -> None:
    """Requests, prompt tokens, re-used tokens by tier, hit rate and TTFT of each template.

    Figures that the engine didn't report are shown as unknown, never as 0.
    """
    parameters = {"format": output, "by": by} | ({"since": since} if since else {})
    with gateway(url, home) as client:
        response = checked(client.get("/foreword/report", params=parameters))
    click.echo(response.text.rstrip("\n"))
