"""A small pooled HTTP/1.1 client over httptools, for one upstream.

The gateway's hot path is one request in, one request out; general clients cost several times the
rest of that path. This one knows one host, keeps idle connections, streams bodies as they come,
and bounds every wait. A pooled connection that turns out to be dead before its answer began is
replaced once, silently: after an engine's restart all of them are.
"""

import asyncio
import ssl
from collections import deque
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import cast
from urllib.parse import urlsplit

import httptools

from app.errors import EngineProtocolError, EngineTimeoutError, EngineUnreachableError

_PAUSE_ABOVE_BYTES = 256 * 1024

Headers = Sequence[tuple[bytes, bytes]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeouts:
    """Seconds; `first_byte_s` includes the engine's queue and prefill."""

    connect_s: float
    first_byte_s: float
    between_bytes_s: float


class _ConnectionLostError(Exception):
    """The connection broke; `answered` tells whether any of the answer had come."""

    def __init__(self, answered: bool, problem: str) -> None:
        super().__init__(problem)
        self.answered = answered
        self.problem = problem


class _Connection(asyncio.Protocol):
    """One connection; carries one exchange at a time."""

    def __init__(self) -> None:
        self.reused = False
        self.status = 0
        self.headers: dict[bytes, bytes] = {}
        self.complete = False
        self._transport: asyncio.Transport | None = None
        self._parser = httptools.HttpResponseParser(self)
        self._keep_alive = False
        self._headers_done = False
        self._answered = False
        self._lost: str | None = None
        self._malformed: str | None = None
        self._body: deque[bytes] = deque()
        self._body_bytes = 0
        self._paused = False
        self._changed: asyncio.Future[None] | None = None

    # asyncio.Protocol
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports don't derive from asyncio's.
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self._answered = True
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            self._malformed = str(error)
            self.close()
        if self._body_bytes > _PAUSE_ABOVE_BYTES and self._transport and not self._paused:
            self._transport.pause_reading()
            self._paused = True
        self._wake()

    def connection_lost(self, exc: Exception | None) -> None:
        self._lost = str(exc) if exc else "it closed the connection"
        self._wake()

    # httptools callbacks
    def on_header(self, name: bytes, value: bytes) -> None:
        self.headers[name.lower()] = value

    def on_headers_complete(self) -> None:
        self.status = self._parser.get_status_code()
        self._headers_done = self.status >= 200

    def on_body(self, body: bytes) -> None:
        self._body.append(body)
        self._body_bytes += len(body)

    def on_message_complete(self) -> None:
        # A 1xx answer completes too, and the real one follows.
        self.complete = self._headers_done
        # llhttp knows only here; afterwards its state is that of the next message.
        self._keep_alive = self._parser.should_keep_alive()

    @property
    def reusable(self) -> bool:
        """Whether the next request may use this connection."""
        return self.complete and self._lost is None and self._malformed is None and self._keep_alive

    @property
    def alive(self) -> bool:
        return self._lost is None and self._transport is not None

    def start(self, request: bytes) -> None:
        """Send a request; forgets the exchange before."""
        self._parser = httptools.HttpResponseParser(self)
        self.status, self.headers, self.complete = 0, {}, False
        self._headers_done = self._answered = False
        self._body.clear()
        self._body_bytes = 0
        if self._transport is not None:
            self._transport.write(request)

    async def wait_for_headers(self) -> None:
        while not self._headers_done:
            await self._wait()

    async def next_body(self) -> bytes | None:
        """The next bytes of the body, None at its end."""
        while not self._body:
            if self.complete:
                return None
            await self._wait()
        body = b"".join(self._body)
        self._body.clear()
        self._body_bytes = 0
        if self._paused and self._transport is not None:
            self._transport.resume_reading()
            self._paused = False
        return body

    def close(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    async def _wait(self) -> None:
        if self._malformed is not None:
            raise EngineProtocolError("", self._malformed)
        if self._lost is not None:
            raise _ConnectionLostError(self._answered, self._lost)
        self._changed = asyncio.get_running_loop().create_future()
        try:
            await self._changed
        finally:
            self._changed = None

    def _wake(self) -> None:
        if self._changed is not None and not self._changed.done():
            self._changed.set_result(None)


class UpstreamResponse:
    """An answer whose status and headers have come; its body streams.

    Close it, also after an error: an unfinished one takes its connection along, which tells the
    engine to stop.
    """

    def __init__(self, upstream: "Upstream", connection: _Connection) -> None:
        self._upstream = upstream
        self._connection = connection
        self.status = connection.status
        self.headers = connection.headers

    async def chunks(self) -> AsyncIterator[bytes]:
        """The body as it comes.

        Raises:
            EngineTimeoutError, EngineUnreachableError, EngineProtocolError.
        """
        url, timeout_s = self._upstream.url, self._upstream.timeouts.between_bytes_s
        while True:
            try:
                async with asyncio.timeout(timeout_s):
                    body = await self._connection.next_body()
            except TimeoutError as error:
                raise EngineTimeoutError(url, "between bytes", timeout_s) from error
            except _ConnectionLostError as error:
                problem = f"it broke off its answer: {error.problem}"
                raise EngineUnreachableError(url, problem) from error
            except EngineProtocolError as error:
                raise EngineProtocolError(url, error.problem) from error
            if body is None:
                return
            yield body

    async def read(self) -> bytes:
        """The whole body."""
        return b"".join([chunk async for chunk in self.chunks()])

    def close(self) -> None:
        """Give the connection back, or drop it where the body isn't finished."""
        self._upstream.release(self._connection)


class Upstream:
    """A pool of connections to one base URL."""

    def __init__(self, url: str, *, timeouts: Timeouts, max_connections: int) -> None:
        """Raises ValueError: not an http or https URL with a host."""
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"{url!r} is not an http:// or https:// address")
        self.url = url.rstrip("/")
        self.timeouts = timeouts
        self._host = parts.hostname
        self._port = parts.port or (443 if parts.scheme == "https" else 80)
        self._tls = ssl.create_default_context() if parts.scheme == "https" else None
        self._prefix = parts.path.rstrip("/").encode()
        self._authority = parts.netloc.rpartition("@")[2].encode()
        self._idle: list[_Connection] = []
        self._slots = asyncio.Semaphore(max_connections)

    async def send(
        self, method: str, path: str, *, headers: Headers = (), body: bytes = b""
    ) -> UpstreamResponse:
        """Send a request and wait for the answer's headers.

        Raises:
            EngineUnreachableError: no connection, or it broke before the answer began.
            EngineTimeoutError: no connection or no first byte in time.
            EngineProtocolError: the answer isn't HTTP.
        """
        request = self._serialise(method, path, headers, body)
        await self._slots.acquire()
        try:
            connection = await self._exchange(request)
        except BaseException:
            self._slots.release()
            raise
        return UpstreamResponse(self, connection)

    def release(self, connection: _Connection) -> None:
        """Take a connection back after its exchange."""
        self._slots.release()
        if connection.reusable:
            connection.reused = True
            self._idle.append(connection)
        else:
            connection.close()

    def close(self) -> None:
        """Drop all idle connections."""
        for connection in self._idle:
            connection.close()
        self._idle.clear()

    async def _exchange(self, request: bytes) -> _Connection:
        connection = self._take_idle() or await self._connect()
        try:
            return await self._headers(connection, request)
        except _ConnectionLostError as lost:
            if not connection.reused or lost.answered:
                raise EngineUnreachableError(self.url, lost.problem) from lost
        fresh = await self._connect()
        try:
            return await self._headers(fresh, request)
        except _ConnectionLostError as lost:
            raise EngineUnreachableError(self.url, lost.problem) from lost

    async def _headers(self, connection: _Connection, request: bytes) -> _Connection:
        timeout_s = self.timeouts.first_byte_s
        try:
            async with asyncio.timeout(timeout_s):
                connection.start(request)
                await connection.wait_for_headers()
        except TimeoutError as error:
            connection.close()
            raise EngineTimeoutError(self.url, "first byte", timeout_s) from error
        except EngineProtocolError as error:
            connection.close()
            raise EngineProtocolError(self.url, error.problem) from error
        except BaseException:
            connection.close()
            raise
        return connection

    def _take_idle(self) -> _Connection | None:
        while self._idle:
            connection = self._idle.pop()
            if connection.alive:
                return connection
        return None

    async def _connect(self) -> _Connection:
        loop = asyncio.get_running_loop()
        timeout_s = self.timeouts.connect_s
        try:
            async with asyncio.timeout(timeout_s):
                _, connection = await loop.create_connection(
                    _Connection, self._host, self._port, ssl=self._tls
                )
        except TimeoutError as error:
            raise EngineTimeoutError(self.url, "connect", timeout_s) from error
        except OSError as error:
            problem = error.strerror or str(error)
            raise EngineUnreachableError(self.url, problem) from error
        return connection

    def _serialise(self, method: str, path: str, headers: Headers, body: bytes) -> bytes:
        lines = [
            b"%b %b%b HTTP/1.1" % (method.encode(), self._prefix, path.encode()),
            b"host: " + self._authority,
            b"content-length: %d" % len(body),
            *(name + b": " + value for name, value in headers),
        ]
        return b"\r\n".join(lines) + b"\r\n\r\n" + body
