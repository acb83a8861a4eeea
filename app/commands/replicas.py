"""`foreword replicas`: the engines behind a running gateway."""

import json
from pathlib import Path
from typing import Any
from urllib.parse import quote

import click

from app.commands.gateway import Told, checked, gateway, gateway_options

_PATH = "/foreword/replicas"
_HEADINGS = (
    *("NAME", "URL", "STATE", "BREAKER"),
    *("IN FLIGHT", "RUNNING", "WAITING", "POOL", "TOKENS/S", "VERSION"),
)
_TEXTS = 4  # the columns that aren't figures
_FORMAT = click.option("--format", "output", type=click.Choice(["text", "json"]), default="text")


@click.group()
def replicas() -> None:
    """See, add and take away the engines behind a running gateway.

    A change holds for all gateways on the database, and after they were started again.
    """


@replicas.command("list")
@_FORMAT
@gateway_options
def list_command(output: str, url: str | None, home: Path) -> None:
    """Show all replicas, how they do and how much they have to do."""
    with gateway(url, home) as client:
        told = checked(client.get(_PATH)).json()
    if output == "json":
        click.echo(json.dumps({"schema_version": 1, **told}, ensure_ascii=False))
        return
    _show(told["data"])
    for replica in told["data"]:
        if replica["reason"]:
            click.echo(f"{replica['name']}: {replica['reason']}", err=True)
    if told["source_problem"]:
        click.echo(told["source_problem"], err=True)


@replicas.command()
@click.argument("engine_url", type=Told())
@click.option("--name", help="by default host and port")
@_FORMAT
@gateway_options
def add(engine_url: str, name: str | None, output: str, url: str | None, home: Path) -> None:
    """Add the SGLang server at ENGINE_URL; it gets requests when it is ready."""
    with gateway(url, home) as client:
        body = {"url": engine_url} | ({"name": name} if name else {})
        _tell(checked(client.post(_PATH, json=body)).json(), output)


def _change(verb: str, text: str) -> None:
    """Add the command `verb`, which POSTs to the route of the same name."""

    @replicas.command(verb, help=text)
    @click.argument("name", type=Told())
    @_FORMAT
    @gateway_options
    def command(name: str, output: str, url: str | None, home: Path) -> None:
        with gateway(url, home) as client:
            _tell(checked(client.post(f"{_PATH}/{quote(name)}/{verb}")).json(), output)


_change("cordon", "Send NAME no new requests; its cache stays.")
_change("uncordon", "Send NAME requests again.")
_change("drain", "Send NAME no new requests, and remove it when those under way have ended.")


@replicas.command()
@click.argument("name", type=Told())
@_FORMAT
@gateway_options
def remove(name: str, output: str, url: str | None, home: Path) -> None:
    """Forget NAME now; requests under way there go on."""
    with gateway(url, home) as client:
        told = checked(client.delete(f"{_PATH}/{quote(name)}")).json()
    if output == "json":
        click.echo(json.dumps({"schema_version": 1, **told}))
    else:
        click.echo(f"{told['name']} is removed")


def _tell(replica: dict[str, Any], output: str) -> None:
    if output == "json":
        click.echo(json.dumps({"schema_version": 1, **replica}, ensure_ascii=False))
    else:
        click.echo(f"{replica['name']} at {replica['url']} is {replica['state']}")


def _show(told: list[dict[str, Any]]) -> None:
    """Columns; what isn't known is a dash."""
    rows = [_HEADINGS, *(_row(replica) for replica in told)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = [
            cell.ljust(width) if number < _TEXTS else cell.rjust(width)
            for number, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        click.echo("  ".join(cells).rstrip())


def _row(replica: dict[str, Any]) -> tuple[str, ...]:
    load = replica["load"]
    return (
        replica["name"],
        replica["url"],
        replica["state"],
        replica["breaker"]["state"],
        str(load["in_flight"]),
        _figure(load["running"]),
        _figure(load["waiting"]),
        _figure(load["pool_used"], "{:.0%}"),
        _figure(load["prefill_tokens_per_s"], "{:,.0f}"),
        replica["version"] or "-",
    )


def _figure(value: float | None, form: str = "{}") -> str:
    return "-" if value is None else form.format(value)
