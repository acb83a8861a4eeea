"""`foreword serve`: the gateway alone, in front of a running engine."""

import asyncio
import signal
import socket
import sys
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from types import FrameType
from typing import cast

import click
import structlog
import uvicorn

from app.admission.direct import keys_exist
from app.collections import check_embedder
from app.fleet.sources import check_sources
from app.garbage import GarbageWatch
from app.gateway_file import announced, local_url
from app.log import configure_logging
from app.main import create_app
from app.outgoing import check_literals
from app.settings import Settings
from app.stack.ports import is_loopback
from app.starting import (
    Starting,
    end_with,
    read_settings,
    require_address,
    tell_strays,
    told_in_a_sentence,
)
from app.tiers import check_tiers
from app.wire import Accepting, GuardedProtocol, raise_file_limit, server_config

_log = structlog.get_logger()
# The ledger's thread works for some milliseconds twice a second. Requests of that moment would wait
# for the interpreter as long as Python lets a thread run, which is 5 ms, for each of their steps.
_SWITCH_S = 0.0005
# Between the end of a shutdown's patience and the last cancellation: for errors to be told, and
# engines to be stopped.
_LAST_WORDS_S = 2


class GatewayServer(uvicorn.Server):
    """Serves, without garbage collections that requests would have to wait for.

    What is under way when the time of a shutdown is over is told so, and ends with an error.

    Args:
        on_cut: called just before that.
    """

    def __init__(
        self,
        config: uvicorn.Config,
        *,
        home: Path | None = None,
        on_cut: Callable[[], None] | None = None,
    ) -> None:
        super().__init__(config)
        self._on_cut = on_cut
        self._patience_s = config.timeout_graceful_shutdown
        if self._patience_s is not None:
            # What uvicorn cancels can't tell its client any more.
            config.timeout_graceful_shutdown = self._patience_s + _LAST_WORDS_S
        self._home = home
        self._announced = ExitStack()
        self._accepting: Accepting | None = None
        self._garbage = GarbageWatch()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen, and be found by the commands that are given the same home."""
        await super().startup(sockets)
        self._accept_all()
        self._garbage.begin()
        sys.setswitchinterval(_SWITCH_S)
        if self._home is not None and self.started:
            self._announce(self._home)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Close what is open, within the time for it."""
        self._announced.close()
        if self._accepting is not None:
            await self._accepting.close()
        _log.info("stopping", requests=self._under_way(), waits_s=self._patience_s)
        cut = None
        if self._patience_s is not None:
            cut = asyncio.get_running_loop().call_later(self._patience_s, self._cut)
        await super().shutdown(sockets)
        if cut is not None:
            cut.cancel()
        self._garbage.end()
        _log.info("stopped")

    async def on_tick(self, counter: int) -> bool:
        """Ten times a second."""
        self._garbage.look(idle=not self.server_state.tasks)
        return await super().on_tick(counter)

    def _under_way(self) -> int:
        return sum(each.under_way for each in self._connections())

    def _cut(self) -> None:
        if not (requests := self._under_way()):
            return
        _log.warning("requests_cut", requests=requests, waited_s=self._patience_s)
        if self._on_cut is not None:
            self._on_cut()
        for each in self._connections():
            each.cut()

    def _connections(self) -> list[GuardedProtocol]:
        connections = self.server_state.connections
        return [each for each in connections if isinstance(each, GuardedProtocol)]

    def _accept_all(self) -> None:
        """With the protocol as uvicorn makes it."""
        protocol = partial(
            cast(Callable[..., asyncio.Protocol], self.config.http_protocol_class),
            config=self.config,
            server_state=self.server_state,
            app_state=self.lifespan.state,
        )
        listening = [each for server in self.servers for each in server.sockets]
        self._accepting = Accepting(asyncio.get_running_loop(), listening, protocol)

    def _announce(self, home: Path) -> None:
        host, port = self.servers[0].sockets[0].getsockname()[:2]
        url = local_url(host, port)
        _log.info("listening", url=url)
        try:
            self._announced.enter_context(announced(home, url))
        except OSError as error:  # a home that only holds the secret may be read-only
            _log.warning("home_not_writable", problem=error.strerror)


@click.command()
@click.option("--engine-url", help="base URL of a running SGLang server")
@click.option("--host", help="address to listen on")
@click.option("--port", type=click.IntRange(0, 65535), help="port to listen on")
def serve(engine_url: str | None, host: str | None, port: int | None) -> None:
    """Run the gateway alone, in front of a running SGLang server."""
    with told_in_a_sentence():
        settings = _settings(engine_url, host, port)
        _require_keys(settings)
        require_address(settings.gateway.host, settings.gateway.port)
        check_sources(settings.replicas, engine_url=settings.engine.url)
        check_tiers(settings)
        check_literals(settings)
        check_embedder(settings.retrieval)
    tell_strays()
    lines = configure_logging(settings.log)
    raise_file_limit()
    app = create_app(settings, lines=lines)
    config = server_config(app, settings, shutdown_s=settings.gateway.drain_s)
    starting = Starting(app)
    config.app, config.interface = starting, "asgi3"
    # uvicorn raises the signal anew when all is closed; that would end the process at once, and
    # the last lines of the log with it.
    signal.signal(signal.SIGTERM, _end)
    server = GatewayServer(
        config, home=settings.home, on_cut=lambda: app.state.services.stopping.cut()
    )
    try:
        server.run()
    except KeyboardInterrupt:
        return  # as asked; all is closed by now
    except SystemExit:
        if starting.failure is not None:
            end_with(starting.failure)
        raise
    finally:
        starting.close()


def _end(_signal: int, _frame: FrameType | None) -> None:
    raise SystemExit(0)


def _require_keys(settings: Settings) -> None:
    """Nobody listens to the network without keys, unless told to.

    Raises:
        click.UsageError: there are none that hold.
        DatabaseError, HomeError: nobody can say whether there are.
    """
    gateway, url = settings.gateway, settings.database.url
    if is_loopback(gateway.host) or gateway.allow_without_keys:
        return
    if not keys_exist(settings.home, None if url is None else url.get_secret_value()):
        raise click.UsageError(
            f"refusing to listen on {gateway.host} without API keys, so that anybody on the "
            "network could use it: make the first one with `foreword keys create TENANT --role "
            "admin`, or keep to 127.0.0.1"
        )


def _settings(engine_url: str | None, host: str | None, port: int | None) -> Settings:
    settings = read_settings()
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
