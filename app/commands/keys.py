"""`foreword keys`: who may use the deployment.

Spoken to the running gateway over HTTP; where none runs, written into its database: that is how the
first key of a deployment is made.
"""

import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote

import click

from app.commands.gateway import Told, checked, gateway, gateway_options, running_gateway
from app.commands.keys_text import shown_key, shown_keys

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
_DURATION = re.compile(r"(\d+(?:\.\d+)?)([smhd])")
_PATH = "/foreword/keys"

Command = TypeVar("Command", bound=Callable[..., Any])


class Duration(click.ParamType[float]):
    """Seconds, from 90s, 15m, 12h or 30d."""

    name = "duration"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Refuse what is none."""
        if isinstance(value, float):
            return value
        match = _DURATION.fullmatch(str(value))
        if match is None:
            self.fail(f"{value!r} is not like 90s, 15m, 12h or 30d", param, ctx)
        return float(match[1]) * _UNITS[match[2]]


def _options(command: Command) -> Command:
    """Where the keys are, and how they are shown."""
    command = click.option(
        "--direct",
        is_flag=True,
        help="work on the database itself, though a gateway runs: when no admin's key is left",
    )(command)
    command = click.option(
        "--format", "output", type=click.Choice(["text", "json"]), default="text"
    )(command)
    return gateway_options(command)


@click.group()
def keys() -> None:
    """Make, list, rotate and revoke API keys.

    While there is no key, a gateway on loopback takes every request as the operator's. The first
    key, which must have the role admin, ends that. Commands take theirs from FOREWORD_API_KEY.
    """


@keys.command()
@click.argument("tenant", type=Told())
@click.option("--name", default="", help="what it is for, as you will find it in the list")
@click.option("--role", type=click.Choice(["user", "admin", "monitor"]), default="user",
              show_default=True)  # fmt: skip
@click.option("--priority", type=click.Choice(["interactive", "normal", "background"]),
              default="interactive", show_default=True,
              help="the most urgent class that its requests may be in")  # fmt: skip
@click.option("--expires", type=Duration(), help="how long it holds: 12h, 90d; by default for ever")
@_options
def create(
    tenant: str,
    name: str,
    role: str,
    priority: str,
    expires: float | None,
    direct: bool,
    output: str,
    url: str | None,
    home: Path,
) -> None:
    """Make a key for TENANT. It is shown once, and can't be shown again."""
    body: dict[str, Any] = {"tenant": tenant, "name": name, "role": role, "priority": priority}
    if expires is not None:
        body |= {"expires_s": expires}
    with _keys(url, home, direct) as ask:
        made = ask("POST", _PATH, body)
    _tell_key(made, output)


@keys.command("list")
@click.option("--tenant", help="only this tenant's")
@_options
def list_command(
    tenant: str | None, direct: bool, output: str, url: str | None, home: Path
) -> None:
    """Show all keys, without what opens anything."""
    query = f"?tenant={quote(tenant, safe='')}" if tenant else ""
    with _keys(url, home, direct) as ask:
        told = ask("GET", _PATH + query, None)
    if output == "json":
        click.echo(json.dumps({"schema_version": 1, **told}, ensure_ascii=False))
    else:
        click.echo(shown_keys(told["data"]))


@keys.command()
@click.argument("key_id", type=Told())
@click.option("--grace", type=Duration(), default="1h", show_default=True,
              help="how long the old key still holds")  # fmt: skip
@click.option(
    "--expires", type=Duration(), help="how long the new one holds; by default as the old"
)
@_options
def rotate(
    key_id: str,
    grace: float,
    expires: float | None,
    direct: bool,
    output: str,
    url: str | None,
    home: Path,
) -> None:
    """Make a new key in place of KEY_ID, which still holds for a while."""
    body = {"grace_s": grace} | ({"expires_s": expires} if expires is not None else {})
    with _keys(url, home, direct) as ask:
        made = ask("POST", f"{_PATH}/{quote(key_id, safe='')}/rotate", body)
    if output == "text":
        click.echo(f"{key_id} ends {f'in {grace:,.0f} s' if grace else 'now'}", err=True)
    _tell_key(made, output)


@keys.command()
@click.argument("key_id", type=Told())
@click.option("--last-admin", is_flag=True,
              help="also where no other admin's key is left; `create --direct` makes "
                   "a new one")  # fmt: skip
@_options
def revoke(
    key_id: str, last_admin: bool, direct: bool, output: str, url: str | None, home: Path
) -> None:
    """End KEY_ID at once."""
    query = "?last_admin=true" if last_admin else ""
    with _keys(url, home, direct) as ask:
        record = ask("DELETE", f"{_PATH}/{quote(key_id, safe='')}{query}", None)
    if output == "json":
        click.echo(json.dumps({"schema_version": 1, **record}, ensure_ascii=False))
    else:
        click.echo(shown_key(record))


Ask = Callable[[str, str, "dict[str, Any] | None"], "dict[str, Any]"]


@contextmanager
def _keys(url: str | None, home: Path, direct: bool) -> Iterator[Ask]:
    """What answers as the gateway does, or would."""
    if direct and url is not None:
        raise click.UsageError("--direct works on the database in --home; --url names a gateway")
    base = None if direct else running_gateway(url, home)
    if base is None:
        # The database and all that stands on it takes seconds to import; a gateway has done so.
        from app.commands.keys_direct import DirectKeys

        with DirectKeys.opened(home) as keys:
            yield keys.ask
        return
    with gateway(base, home) as client:

        def ask(method: str, path: str, body: dict[str, Any] | None) -> dict[str, Any]:
            answer: dict[str, Any] = checked(client.request(method, path, json=body)).json()
            return answer

        yield ask


def _tell_key(made: dict[str, Any], output: str) -> None:
    if output == "json":
        click.echo(json.dumps({"schema_version": 1, **made}, ensure_ascii=False))
        return
    click.echo(f"{shown_key(made)}; it is not shown again:", err=True)
    click.echo(made["key"])
