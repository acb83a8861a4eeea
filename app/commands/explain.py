"""`foreword explain [ID]`: why a request's prompt was, or was not, re-used."""

from pathlib import Path
from urllib.parse import quote

import click

from app.commands.gateway import checked, gateway, gateway_options


@click.command()
@click.argument("request_id", default="last")
@click.option("--format", "output", type=click.Choice(["text", "json"]), default="text")
@gateway_options
def explain(request_id: str, output: str, url: str | None, home: Path) -> None:
    """Tell the story of one request's re-use in a few lines.

    REQUEST_ID is the `request_id` of an answer's `foreword` block, also its `id` and its
    `x-request-id` header; without one, the request that ended last.
    """
    with gateway(url, home) as client:
        path = f"/foreword/explain/{quote(request_id, safe='')}"
        response = checked(client.get(path, params={"format": output}))
    click.echo(response.text.rstrip("\n"))
