"""How a command reaches the gateway: found through `stack.json` or `--url`, spoken to over HTTP."""

import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import click
import httpx

from app.gateway_file import announced_url
from app.stack.paths import HomePaths, resolve
from app.stack.stack_file import read_stack_file

KEY_VARIABLE = "FOREWORD_API_KEY"

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
        GatewayAnswerError: none is known, none answers, or it broke off; or what is sent to it has
            bytes in it that are no text.
    """
    base = url or _running(home)
    timeout = httpx.Timeout(_READ_S, connect=_CONNECT_S)
    try:
        with httpx.Client(
            base_url=base, headers=_authorization(), timeout=timeout, trust_env=False
        ) as client:
            yield client
    except UnicodeEncodeError as error:
        if error.encoding != "utf-8":
            raise
        raise GatewayAnswerError("an argument isn't UTF-8: give it in that encoding") from error
    except (httpx.InvalidURL, httpx.UnsupportedProtocol) as error:
        raise GatewayAnswerError(f"{base!r} is not an http:// address") from error
    except httpx.ConnectError as error:
        problem = f"no gateway answers at {base}; start one with `foreword up`"
        raise NoGatewayError(problem) from error
    except httpx.HTTPError as error:
        problem = f"the gateway at {base} broke off: {error or type(error).__name__}"
        raise NoGatewayError(problem) from error


def running_gateway(url: str | None, home: Path) -> str | None:
    """The base URL of the gateway that was named or that runs there; None: there is none.

    A supervisor's file names its gateway, also one that is still starting; without one the file of
    `foreword serve` does.
    """
    if url is not None:
        return url
    facts = read_stack_file(HomePaths(resolve(home)).stack_file)
    return announced_url(home) if facts is None else _running(home)


def _authorization() -> dict[str, str]:
    """The key that the environment has; a gateway on loopback without keys needs none.

    Raises:
        GatewayAnswerError: it has characters that no key has, such as the dots of an example.
    """
    key = os.environ.get(KEY_VARIABLE)
    if key and not (key.isascii() and key.isprintable()):
        raise GatewayAnswerError(f"{KEY_VARIABLE} holds no key: a key is `fw-` and plain letters")
    return {"authorization": f"Bearer {key}"} if key else {}


def checked(response: httpx.Response) -> httpx.Response:
    """The response, if it is a success.

    Raises:
        GatewayAnswerError: with the gateway's own sentence.
    """
    if response.is_success:
        return response
    response.read()
    message = error_message(response.text, response.status_code)
    if response.status_code == httpx.codes.UNAUTHORIZED:
        message += f" (this command takes it from {KEY_VARIABLE})"
    raise GatewayAnswerError(message)


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
        served = announced_url(home)
        if served is not None:
            return served
        problem = (
            f"nothing runs in {home}; start it with `foreword up`, or name a gateway with --url "
            "or FOREWORD_URL"
        )
        raise NoGatewayError(problem)
    if facts.url is None or not facts.ready:
        problem = f"the stack in {home} is still starting; try again when `foreword up` says so"
        raise NoGatewayError(problem)
    return facts.url
