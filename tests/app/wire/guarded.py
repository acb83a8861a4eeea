"""A small app behind the guarded protocol."""

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import uvicorn
from fastapi import FastAPI, Request
from fastapi.responses import PlainTextResponse, Response, StreamingResponse

from app.settings import WireSettings
from app.wire import server_config
from tests.gateways import gateway_settings

# Nobody who does nothing wrong meets a limit of these, also where the machine stalls.
PATIENT = WireSettings(
    connections=20, target_bytes=1000, head_bytes=4096, headers=20, head_s=60, body_window_s=60,
    body_bytes_per_s=1000, body_s=90, send_stall_s=60, keep_alive_s=60, linger_s=0.3,
)  # fmt: skip
# Short enough to be reached.
HASTY = PATIENT.model_copy(
    update={
        "head_s": 0.8,
        "body_window_s": 3.0,
        "body_s": 15.0,
        "send_stall_s": 0.5,
        "keep_alive_s": 1,
    }
)


@dataclass
class Guarded:
    """A running server, and what its app saw."""

    url: str = ""
    app: FastAPI = field(default_factory=FastAPI)
    server: uvicorn.Server | None = None
    bodies: list[bytes] = field(default_factory=list)
    left: int = 0

    @property
    def connections(self) -> int:
        assert self.server is not None
        return len(self.server.server_state.connections)

    @property
    def refused(self) -> dict[str, int]:
        return dict(self.app.state.refused)


@contextmanager
def running_guarded(home: Path, limits: WireSettings) -> Iterator[Guarded]:
    """A server in a thread."""
    made = Guarded()
    _add_routes(made)
    settings = gateway_settings(home, "http://127.0.0.1:9").model_copy(update={"wire": limits})
    made.server = uvicorn.Server(server_config(made.app, settings, shutdown_s=1))
    thread = threading.Thread(target=made.server.run, name="guarded")
    thread.start()
    deadline = time.monotonic() + 30
    while not made.server.started:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    port = made.server.servers[0].sockets[0].getsockname()[1]
    made.url = f"http://127.0.0.1:{port}"
    try:
        yield made
    finally:
        made.server.should_exit = True
        thread.join(60)
        assert not thread.is_alive()


def _add_routes(made: Guarded) -> None:
    @made.app.get("/ok")
    async def ok() -> PlainTextResponse:
        return PlainTextResponse("ok")

    @made.app.post("/echo")
    async def echo(request: Request) -> Response:
        body = await request.body()
        made.bodies.append(body)
        return Response(body)

    @made.app.post("/early")
    async def early() -> PlainTextResponse:
        return PlainTextResponse("no need to read on", 401)

    @made.app.get("/large")
    async def large() -> Response:
        return Response(b"x" * 20_000_000)

    @made.app.get("/slow")
    async def slow() -> StreamingResponse:
        return StreamingResponse(_until_gone(made))


async def _until_gone(made: Guarded) -> AsyncIterator[bytes]:
    is_whole = False
    try:
        for _ in range(50):
            yield b"."
            await asyncio.sleep(0.02)
        is_whole = True
    finally:
        made.left += not is_whole
