"""The simulated engine on a socket: in this process's foreground, or in a thread of a test."""

import asyncio
import socket
import threading
import time
from types import TracebackType
from typing import Self

import uvicorn
from starlette.applications import Starlette
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from bench.engine_sim.app import SERVER_HEADER, create_app
from bench.engine_sim.config import SimulatorConfig
from bench.engine_sim.connection import Connections
from bench.engine_sim.engine import SimulatedEngine
from bench.errors import SimulatorError, SimulatorStartError, SimulatorStopError

_START_TIMEOUT_S = 60.0
_STOP_TIMEOUT_S = 60.0


def listen(host: str, port: int) -> socket.socket:
    """A listening socket; port 0 takes a free one.

    Raises:
        SimulatorStartError: the address is taken or not ours.
    """
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
    except OSError as error:
        listener.close()
        raise SimulatorStartError(f"{host}:{port}", error.strerror or str(error)) from error
    listener.listen(1024)
    return listener


def make_server(app: Starlette, *, log_level: str = "warning") -> uvicorn.Server:
    """A server for the application; its answers say that they are simulated."""
    return uvicorn.Server(
        uvicorn.Config(
            app,
            http=_protocol(app.state.connections),
            log_level=log_level,
            access_log=False,
            server_header=False,
            headers=[("Server", f"{SERVER_HEADER} (simulated)")],
            timeout_graceful_shutdown=1,
        )
    )


def _protocol(connections: Connections) -> type[HttpToolsProtocol]:
    """uvicorn's protocol, which also keeps its open transports where faults find them."""

    class RecordedProtocol(HttpToolsProtocol):
        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            connections[transport.get_extra_info("peername")] = transport
            super().connection_made(transport)

        def connection_lost(self, exc: Exception | None) -> None:
            connections.pop(self.transport.get_extra_info("peername"), None)
            super().connection_lost(exc)

    return RecordedProtocol


class SimulatorThread:
    """A simulated replica in a thread of its own, for tests.

    `stop` and `start` may be called again: while it is stopped, its address refuses connections;
    started again on the same port, it has forgotten everything, as an engine would have.
    """

    def __init__(self, config: SimulatorConfig, *, host: str = "127.0.0.1", port: int = 0) -> None:
        self.config = config
        self.host = host
        self.port = port
        self._server: uvicorn.Server | None = None
        self._thread: threading.Thread | None = None
        self._engine: SimulatedEngine | None = None

    @property
    def url(self) -> str:
        return f"http://{self.host}:{self.port}"

    @property
    def engine(self) -> SimulatedEngine:
        """The replica's inside; to be read only, since it belongs to another thread."""
        assert self._engine is not None, "the simulator is not started"
        return self._engine

    def start(self) -> None:
        """Raises SimulatorStartError, ModelFolderError."""
        listener = listen(self.host, self.port)
        try:
            app = create_app(self.config)
        except SimulatorError:
            listener.close()
            raise
        self.port = listener.getsockname()[1]
        self._engine = app.state.engine
        self._server = make_server(app, log_level="critical")
        self._thread = threading.Thread(
            target=self._server.run, args=([listener],), name="engine-sim", daemon=True
        )
        self._thread.start()
        give_up_s = time.monotonic() + _START_TIMEOUT_S
        while not self._server.started:
            if time.monotonic() > give_up_s or not self._thread.is_alive():
                self._server.should_exit = True
                raise SimulatorStartError(self.url, "it did not start in time")
            time.sleep(0.005)

    def stop(self) -> None:
        """Raises SimulatorStopError."""
        if self._server is None or self._thread is None:
            return
        self._server.should_exit = True
        self._thread.join(_STOP_TIMEOUT_S)
        if self._thread.is_alive():
            raise SimulatorStopError(self.url, "it did not stop in time")
        self._server = self._thread = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()
