"""`python -m bench.hot_path.floor ENGINE_PORT PORT`: bytes in, bytes out.

The least that a gateway in Python can cost: it parses both sides' framing as any proxy must, and
no more: no JSON, no tokens, no routing, no accounts. What a gateway costs beyond it is its own.
"""

import asyncio
import sys
from collections import deque
from typing import cast

import httptools
import uvloop

_HEAD = (
    b"POST /v1/chat/completions HTTP/1.1\r\nhost: engine\r\n"
    b"content-type: application/json\r\ncontent-length: %d\r\n\r\n"
)


class _Engine(asyncio.Protocol):
    """A connection to the engine; what comes goes to one client."""

    def __init__(self, pool: deque["_Engine"]) -> None:
        self.client: _Client | None = None
        # What was asked, until an answer begins.
        self._body: bytes | None = None
        self._pool = pool

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)

    def ask(self, client: "_Client", body: bytes) -> None:
        self.client, self._body = client, body
        self.parser = httptools.HttpResponseParser(self)
        self.transport.write(_HEAD % len(body) + body)

    def data_received(self, data: bytes) -> None:
        client = self.client
        assert client is not None
        # The answer's framing is passed on as it is; parsed only to know where it ends.
        self._body = None
        client.transport.write(data)
        self.parser.feed_data(data)

    def connection_lost(self, exc: Exception | None) -> None:
        if self in self._pool:
            self._pool.remove(self)
        elif self.client is not None and self._body is not None:
            self.client.ask_again(self._body)

    def on_message_complete(self) -> None:
        assert self.client is not None
        self._pool.append(self)
        self.client = None


class _Client(asyncio.Protocol):
    """A client's connection."""

    def __init__(self, engine_port: int, pool: deque[_Engine]) -> None:
        self.pool = pool
        self._engine_port = engine_port
        self._body: list[bytes] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self._parser = httptools.HttpRequestParser(self)

    def data_received(self, data: bytes) -> None:
        self._parser.feed_data(data)

    def on_url(self, url: bytes) -> None:
        self._url = url

    def on_body(self, body: bytes) -> None:
        self._body.append(body)

    def on_message_complete(self) -> None:
        body, self._body = b"".join(self._body), []
        if self._url == b"/readyz":
            self.transport.write(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok")
        elif self.pool:
            self.pool.popleft().ask(self, body)
        else:
            self.ask_again(body)

    def ask_again(self, body: bytes) -> None:
        """By a fresh connection."""
        self._connecting = asyncio.ensure_future(self._connect(body))

    async def _connect(self, body: bytes) -> None:
        loop = asyncio.get_running_loop()
        _, engine = await loop.create_connection(
            lambda: _Engine(self.pool), "127.0.0.1", self._engine_port
        )
        engine.ask(self, body)


async def _serve(engine_port: int, port: int) -> None:
    pool: deque[_Engine] = deque()
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: _Client(engine_port, pool), "127.0.0.1", port)
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(_serve(int(sys.argv[1]), int(sys.argv[2])))
