"""`foreword warm COLLECTION`: a whole collection into the engine's memory, before it is asked."""

import json
import sys
import time
from pathlib import Path
from typing import Any
from urllib.parse import quote

import click
import httpx

from app.commands.gateway import Told, checked, gateway, gateway_options

_LOOK_S = 0.25
_STEPS = 1000


@click.command()
@click.argument("collection", type=Told())
@click.option("--format", "output", type=click.Choice(["text", "json"]), default="text")
@gateway_options
def warm(collection: str, output: str, url: str | None, home: Path) -> None:
    """Warm COLLECTION, an id or a name: compute its KV, or load it from the tiers.

    Questions in mode cag then begin with what the engine holds. Ends with code 1 where the engine
    could not be made to hold all of it; the reason is told.
    """
    path = f"/foreword/collections/{quote(collection, safe='')}"
    with gateway(url, home) as client:
        begun = checked(client.post(f"{path}/warm")).json()
        found = _followed(client, path, begun)
    if output == "json":
        click.echo(json.dumps({"schema_version": 1, **found}, ensure_ascii=False))
    else:
        click.echo(summary(found))
    if not found["corpus"]["resident"]:
        sys.exit(1)


def summary(found: dict[str, Any]) -> str:
    """One line: how many tokens are resident, and what it took, or why they aren't."""
    corpus = found["corpus"]
    if not corpus["resident"]:
        return f"{found['name']} is {corpus['state']}: {corpus['problem'] or 'no reason is known'}"
    line = f"{found['name']} is resident: {corpus['tokens']:,} tokens"
    if corpus["warm_s"] is not None:
        line += f", warmed in {corpus['warm_s']:.1f} s"
    if corpus["warm_loaded_tokens"]:
        line += f", {corpus['warm_loaded_tokens']:,} of them from the tiers"
    return line


def _followed(client: httpx.Client, path: str, begun: dict[str, Any]) -> dict[str, Any]:
    """Look until nobody waits for it any more."""
    found, shown = begun, 0
    with click.progressbar(length=_STEPS, label=begun["name"], file=sys.stderr) as bar:
        while found["corpus"]["wanted"]:
            time.sleep(_LOOK_S)
            found = checked(client.get(path)).json()
            done = int(_STEPS * (found["corpus"]["progress"] or 0))
            bar.update(max(0, done - shown))
            shown = max(done, shown)
        if found["corpus"]["resident"]:
            bar.update(_STEPS - shown)
    return found
