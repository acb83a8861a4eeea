"""What a gateway can't start with is one sentence, without a traceback.

The exit status is 2 where a setting is at fault, and 3 for all else.
"""

import errno
import logging
import os
import socket
import sys
import tomllib
from collections.abc import Coroutine, Iterator, Mapping
from contextlib import contextmanager
from difflib import get_close_matches
from typing import Any, NoReturn

import click
from pydantic import ValidationError
from pydantic_settings import SettingsError
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.errors import GatewayError, InvalidSettingError
from app.setting_names import (
    FILE,
    Location,
    SettingPath,
    form,
    in_file,
    model_at,
    nearest,
    not_json,
    place_of,
    rest_of,
    strays,
    unknown_in_file,
    unknown_section,
    variable,
)
from app.settings import Settings
from app.stack.errors import StackError
from app.stack.ports import claim_port
from cache.errors import CacheError
from prompts import PromptError
from retrieval import RetrievalError

_NOT_STARTED, _MISCONFIGURED = 3, 2
_KNOWN = (GatewayError, PromptError, CacheError, RetrievalError, StackError)
_UVICORN = logging.getLogger("uvicorn.error")
_ALL_NAMES = "docs/settings.md has all names"


@contextmanager
def told_in_a_sentence() -> Iterator[None]:
    """What is known to go wrong at a start ends the process."""
    try:
        yield
    except _KNOWN as error:
        end_with(error)


def end_with(error: Exception) -> NoReturn:
    """Say what went wrong, a setting by where it was given, and end the process."""
    if not isinstance(error, InvalidSettingError):
        click.echo(str(error), err=True)
        sys.exit(_NOT_STARTED)
    place = error.place
    if place is None:
        location = tuple(error.setting.split("."))
        place, way = place_of(os.environ, _read_file(), location)
        if way:  # it was given as an option, or is the default
            place = variable(location)
    click.echo(f"{place}: {error.problem}", err=True)
    sys.exit(_MISCONFIGURED)


def read_settings() -> Settings:
    """All settings, from environment, files and `foreword.toml`.

    Raises:
        InvalidSettingError: names the first that is wrong, and where it was given.
    """
    table = _read_file()
    _refuse_unknown(table)
    try:
        return Settings()
    except ValidationError as error:
        raise _wrong(error, table) from error
    except SettingsError as error:
        path, written = not_json(Settings, os.environ) or (("…",), '["a", "b"]')
        problem = f"it must be JSON, written as '{written}'"
        raise InvalidSettingError(".".join(path), problem) from error


def tell_strays() -> None:
    """Variables that look like Foreword's and aren't: perhaps another program's, or misspelt."""
    for sentence in strays(Settings, os.environ):
        click.echo(f"warning: {sentence}", err=True)


def _read_file() -> Mapping[str, Any]:
    try:
        with open(FILE, "rb") as file:  # noqa: PTH123 - in the working folder
            return tomllib.load(file)
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:  # not TOML, or not UTF-8
        problem = (isinstance(error, OSError) and error.strerror) or str(error)
        raise InvalidSettingError("", problem, place=f"{FILE} can't be used") from error


def _refuse_unknown(table: Mapping[str, Any]) -> None:
    path = unknown_section(Settings, os.environ)
    if path is not None:
        meant = nearest(Settings, path)
        raise InvalidSettingError(
            ".".join(path),
            f"there is no section {path[0]!r}; {_hint(variable(meant) if meant else None)}",
        )
    name = unknown_in_file(Settings, table)
    if name is not None:
        is_section = isinstance(table[name], dict)
        meant = nearest(Settings, (name,))
        form_of_names = "[{}]" if is_section else "`{}`"
        hint = _hint(form_of_names.format(meant[0]) if meant else None)
        kind = "section" if is_section else "setting"
        raise InvalidSettingError(
            name,
            f"there is no such {kind}; {hint}",
            place=f"{FILE}, {form_of_names.format(name)}",
        )


def _wrong(error: ValidationError, table: Mapping[str, Any]) -> InvalidSettingError:
    """The first that is wrong; a misspelt name before what is missing for it."""
    found = error.errors(include_url=False)
    first = next((each for each in found if each["type"] == "extra_forbidden"), found[0])
    location: Location = first["loc"]
    place, way = place_of(os.environ, table, location)
    problem = first["msg"].removeprefix("Value error, ")
    if first["type"] == "extra_forbidden":
        problem = f"there is no such setting; {_hint(_meant(location, place, way))}"
    elif first["type"] in ("tuple_type", "dict_type", "model_type", "model_attributes_type"):
        written = form(Settings, location, first["input"])
        kind = "a list" if first["type"] == "tuple_type" else "a table"
        problem = f"it must be {kind}, written as {written}"
    setting = ".".join(str(part) for part in location)
    return InvalidSettingError(setting, rest_of(way) + problem, place=place)


def _meant(location: Location, place: str, way: Location) -> str | None:
    """The right name, in the form in which the wrong one was given."""
    if way:  # within a value: only its own keys can be meant
        parent = model_at(Settings, location[:-1])
        names = () if parent is None else parent.model_fields
        return next((f"`{n}`" for n in get_close_matches(str(location[-1]), names, n=1)), None)
    path: SettingPath = tuple(str(part) for part in location)
    meant = nearest(Settings, path)
    if meant is None:
        return None
    if not place.startswith(FILE):
        return variable(meant)
    return f"`{meant[-1]}`" if meant[:-1] == path[:-1] else in_file(meant)


def _hint(meant: str | None) -> str:
    return _ALL_NAMES if not meant else f"did you mean {meant}?"


def require_address(host: str, port: int) -> None:
    """Raises StackError, InvalidSettingError: nobody can listen there."""
    try:
        claim_port(host, port)
    except socket.gaierror:
        return  # a name with other kinds of addresses, or none: uvicorn says so
    except OSError as error:
        if error.errno in (errno.EADDRNOTAVAIL, errno.EACCES):
            problem = f"can't listen on {host}, port {port}: {error.strerror}"
            raise InvalidSettingError("gateway.host", problem) from error
        raise


class Starting:
    """An app whose start may fail: of what is kept here, and no traceback is logged.

    What isn't a known error is logged as ever.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self.failure: Exception | None = None

    def __call__(self, scope: Scope, receive: Receive, send: Send) -> Coroutine[Any, Any, None]:
        """ASGI; adds nothing to requests."""
        if scope["type"] == "lifespan":
            return self._live(scope, receive, send)
        return self._app(scope, receive, send)  # type: ignore[return-value]

    def close(self) -> None:
        """The log is as it was."""
        _UVICORN.disabled = False

    async def _live(self, scope: Scope, receive: Receive, send: Send) -> None:
        failed: Message | None = None

        async def held_back(message: Message) -> None:
            nonlocal failed
            if message["type"] == "lifespan.startup.failed":
                failed = message  # it is a traceback
                return
            await send(message)

        try:
            await self._app(scope, receive, held_back)
        except _KNOWN as error:
            if failed is None:
                raise
            self.failure = error
            # What uvicorn would say now is less than what whoever asks for the failure will say.
            _UVICORN.disabled = True
            await send({"type": "lifespan.startup.failed", "message": ""})
        except Exception:
            if failed is not None:
                await send(failed)
            raise
