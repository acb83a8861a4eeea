"""The cheapest HTTP/1.1 client that a soak can do with: httptools on asyncio, one host."""

import asyncio
import time
from dataclasses import dataclass
from typing import cast

import httptools

from bench.errors import SoakError

_LONGEST_WAIT_S = 120.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """What came back.

    Attributes:
        status: 0 where the connection broke before any head.
        first_s: seconds from sending to the first byte of the body; None: there was none.
        total_s: seconds to its end.
        complete: the body came to its end, and was not given up by us.
    """

    status: int
    body: bytes
    first_s: float | None
    total_s: float
    complete: bool


class _Connection(asyncio.Protocol):
    """One exchange at a time."""

    def __init__(self) -> None:
        self.transport: asyncio.Transport | None = None
        self.lost = False
        self._done: asyncio.Future[bool] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)

    def begin(self, request: bytes, give_up_after: int | None) -> asyncio.Future[bool]:
        """Send; the future tells whether the answer came to its end."""
        self._parser = httptools.HttpResponseParser(self)
        self._give_up_after = give_up_after
        self.parts: list[bytes] = []
        self.first_at: float | None = None
        self.head = False
        self._done = asyncio.get_running_loop().create_future()
        assert self.transport is not None
        self.transport.write(request)
        return self._done

    def data_received(self, data: bytes) -> None:
        self._parser.feed_data(data)

    def on_headers_complete(self) -> None:
        self.head = True

    def on_body(self, body: bytes) -> None:
        if self.first_at is None:
            self.first_at = time.perf_counter()
        self.parts.append(body)
        if self._give_up_after is not None and len(self.parts) >= self._give_up_after:
            self.close()
            self._finish(complete=False)

    def on_message_complete(self) -> None:
        self._finish(complete=True)

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost = True
        self._finish(complete=False)

    def status(self) -> int:
        return self._parser.get_status_code() if self.head else 0

    def close(self) -> None:
        if self.transport is not None:
            self.transport.abort()
        self.lost = True

    def _finish(self, *, complete: bool) -> None:
        if self._done is not None and not self._done.done():
            self._done.set_result(complete)


class HttpClient:
    """Requests to one local server over connections that are kept."""

    def __init__(self, host: str, port: int) -> None:
        self._host = host
        self._port = port
        self._idle: list[_Connection] = []

    async def send(
        self,
        method: str,
        path: str,
        body: bytes = b"",
        *,
        content_type: str = "application/json",
        give_up_after: int | None = None,
    ) -> Reply:
        """One exchange; `give_up_after` so many pieces of the body the connection is dropped.

        Raises:
            SoakError: no end within two minutes.
            OSError: nobody listens.
        """
        connection = await self._connection()
        head = (
            f"{method} {path} HTTP/1.1\r\nhost: {self._host}\r\n"
            f"content-type: {content_type}\r\ncontent-length: {len(body)}\r\n\r\n"
        )
        began = time.perf_counter()
        try:
            async with asyncio.timeout(_LONGEST_WAIT_S):
                complete = await connection.begin(head.encode() + body, give_up_after)
        except TimeoutError:
            raise SoakError(f"{method} {path}", f"no answer in {_LONGEST_WAIT_S:.0f} s") from None
        ended = time.perf_counter()
        if not connection.lost:
            self._idle.append(connection)
        first = connection.first_at
        return Reply(
            status=connection.status(),
            body=b"".join(connection.parts),
            first_s=None if first is None else first - began,
            total_s=ended - began,
            complete=complete,
        )

    def close(self) -> None:
        for connection in self._idle:
            connection.close()
        self._idle.clear()

    async def _connection(self) -> _Connection:
        while self._idle:
            connection = self._idle.pop()
            if not connection.lost:
                return connection
        loop = asyncio.get_running_loop()
        _, made = await loop.create_connection(_Connection, self._host, self._port)
        return made
