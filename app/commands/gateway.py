"""How a command reaches the gateway: found through `stack.json` or `--url`, spoken to over HTTP."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import click
import httpx

from app.stack.paths import HomePaths, resolve
from app.stack.stack_file import read_stack_file

_CONNECT_S = 5.0
# Prefill of a long prompt on a plain CPU takes minutes; the engine's own limits are shorter.
_READ_S = 900.0

Command = TypeVar("Command", bound=Callable[..., Any])


class GatewayAnswerError(click.ClickException):
    """One sentence for people."""

    exit_code = 2


class Told(click.ParamType[str]):
    """Text that says something."""

    name = "text"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Refuse what is blank, as a shell's unset variable leaves it."""
        if not value.strip():
            self.fail("it is empty", param, ctx)
        return value


class NoGatewayError(GatewayAnswerError):
    """No gateway answers."""

    exit_code = 3


def gateway_options(command: Command) -> Command:
    """The options that say which gateway."""
    command = click.option(
        "--home",
        type=click.Path(path_type=Path, file_okay=False),
        envvar="FOREWORD_HOME",
        default=Path("~/.local/share/foreword"),
        show_default=True,
        help="home of the running stack",
    )(command)
    return click.option("--url", envvar="FOREWORD_URL", help="gateway's base URL")(command)


@contextmanager
def gateway(url: str | None, home: Path) -> Iterator[httpx.Client]:
    """A client of the gateway.

    Raises:
        GatewayAnswerError: none is known, none answers, or it broke off.
    """
    base = url or _running(home)
    timeout = httpx.Timeout(_READ_S, connect=_CONNECT_S)
    try:
        with httpx.Client(base_url=base, timeout=timeout, trust_env=False) as client:
            yield client
    except (httpx.InvalidURL, httpx.UnsupportedProtocol) as error:
        raise GatewayAnswerError(f"{base!r} is not an http:// address") from error
    except httpx.ConnectError as error:
        problem = f"no gateway answers at {base}; start one with `foreword up`"
        raise NoGatewayError(problem) from error
    except httpx.HTTPError as error:
        problem = f"the gateway at {base} broke off: {error or type(error).__name__}"
        raise NoGatewayError(problem) from error


def checked(response: httpx.Response) -> httpx.Response:
    """The response, if it is a success.

    Raises:
        GatewayAnswerError: with the gateway's own sentence.
    """
    if response.is_success:
        return response
    response.read()
    raise GatewayAnswerError(error_message(response.text, response.status_code))


def error_message(text: str, status: int) -> str:
    """The sentence of an OpenAI error body, or what there is instead."""
    try:
        body = json.loads(text)
    except json.JSONDecodeError:
        return f"the gateway answered {status}: {text[:300]}"
    match body:
        case {"error": {"message": str() as message}}:
            return message
        case _:
            return f"the gateway answered {status}: {text[:300]}"


def _running(home: Path) -> str:
    facts = read_stack_file(HomePaths(resolve(home)).stack_file)
    if facts is None:
        problem = f"nothing runs in {home}; start it with `foreword up`, or give --url"
        raise NoGatewayError(problem)
    if facts.url is None or not facts.ready:
        problem = f"the stack in {home} is still starting; try again when `foreword up` says so"
        raise NoGatewayError(problem)
    return facts.url
