"""`foreword serve`: the gateway alone, in front of a running engine."""

import gc
import socket
import sys

import click
import pydantic
import uvicorn

from app.collections import check_embedder
from app.errors import DatabaseError, HomeError, InvalidSettingError
from app.log import configure_logging
from app.main import create_app
from app.settings import Settings
from app.stack.ports import is_loopback
from retrieval import EmbedderError

_COULD_NOT_START = 3
_SHUTDOWN_S = 30


class GatewayServer(uvicorn.Server):
    """Serves, with what was loaded at the start left out of garbage collections.

    A full collection goes over all of it, while every request waits: a quarter of a second.
    """

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen."""
        await super().startup(sockets)
        gc.collect()
        gc.freeze()


@click.command()
@click.option("--engine-url", help="base URL of a running SGLang server")
@click.option("--host", help="address to listen on")
@click.option("--port", type=click.IntRange(0, 65535), help="port to listen on")
def serve(engine_url: str | None, host: str | None, port: int | None) -> None:
    """Run the gateway alone, in front of a running SGLang server."""
    configure_logging()
    settings = _settings(engine_url, host, port)
    if not is_loopback(settings.gateway.host) and not settings.gateway.allow_without_keys:
        raise click.UsageError(
            f"refusing to listen on {settings.gateway.host} without API keys: this version has "
            "none, so anybody on the network could use it; keep to 127.0.0.1 and put a proxy that "
            "authenticates in front"
        )
    try:
        check_embedder(settings.retrieval)
    except (EmbedderError, InvalidSettingError) as error:
        click.echo(str(error), err=True)
        sys.exit(_COULD_NOT_START)
    config = uvicorn.Config(
        create_app(settings),
        host=settings.gateway.host,
        port=settings.gateway.port,
        log_config=None,
        access_log=False,
        timeout_graceful_shutdown=_SHUTDOWN_S,
    )
    try:
        GatewayServer(config).run()
    except (DatabaseError, HomeError) as error:
        click.echo(str(error), err=True)
        sys.exit(_COULD_NOT_START)


def _settings(engine_url: str | None, host: str | None, port: int | None) -> Settings:
    try:
        settings = Settings()
    except pydantic.ValidationError as error:
        first = error.errors(include_url=False)[0]
        name = "FOREWORD_" + "__".join(str(part).upper() for part in first["loc"])
        raise click.UsageError(f"{name}: {first['msg']}") from error
    gateway = {k: v for k, v in (("host", host), ("port", port)) if v is not None}
    engine = {"url": engine_url} if engine_url else {}
    return settings.model_copy(
        update={
            "gateway": settings.gateway.model_copy(update=gateway),
            "engine": settings.engine.model_copy(update=engine),
        }
    )


if __name__ == "__main__":
    serve()
