"""What a gateway can't start with is one sentence, without a traceback, and exit status 3."""

import errno
import logging
import re
import socket
import sys
import tomllib
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click
from pydantic import ValidationError
from pydantic_settings import SettingsError
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.errors import GatewayError, HomeError, InvalidSettingError
from app.settings import Settings
from app.stack.errors import StackError
from app.stack.ports import claim_port
from cache.errors import CacheError
from prompts import PromptError
from retrieval import RetrievalError

EXIT_STATUS = 3
_KNOWN = (GatewayError, PromptError, CacheError, RetrievalError, StackError)
_TOML = Path("foreword.toml")
_UVICORN = logging.getLogger("uvicorn.error")


@contextmanager
def told_in_a_sentence() -> Iterator[None]:
    """What is known to go wrong at a start ends the process."""
    try:
        yield
    except _KNOWN as error:
        click.echo(str(error), err=True)
        sys.exit(EXIT_STATUS)


def read_settings() -> Settings:
    """All settings, from environment, files and `foreword.toml`.

    Raises:
        InvalidSettingError: names the first that is wrong.
        HomeError: `foreword.toml` can't be read.
    """
    try:
        return Settings()
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        name = ".".join(str(part) for part in first["loc"])
        raise InvalidSettingError(name, first["msg"].removeprefix("Value error, ")) from error
    except SettingsError as error:
        [section] = re.findall(r'field "(\w+)"', str(error)) or ["…"]
        problem = """a value is not JSON; lists are written as '["a", "b"]'"""
        raise InvalidSettingError(f"{section}.…", problem) from error
    except tomllib.TOMLDecodeError as error:
        raise HomeError(_TOML, str(error)) from error


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
