"""A small pooled HTTP/1.1 client over httptools, for one upstream.

The gateway's hot path is one request in, one request out; general clients cost several times the
rest of that path. This one knows one host, keeps idle connections, streams bodies as they come,
and bounds every wait. A pooled connection that turns out to be dead before its answer began is
replaced once, silently: after an engine's restart all of them are.
"""

import asyncio
import ssl
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

from app.errors import (
    EngineError,
    EngineProtocolError,
    EngineTimeoutError,
    EngineUnreachableError,
)
from app.upstream_connection import Connection, ConnectionLostError

Headers = Sequence[tuple[bytes, bytes]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeouts:
    """Seconds; `first_byte_s` includes the engine's queue and prefill."""

    connect_s: float
    first_byte_s: float
    between_bytes_s: float


class UpstreamResponse:
    """An answer whose status and headers have come; its body streams.

    Close it, also after an error: an unfinished one takes its connection along, which tells the
    engine to stop.
    """

    def __init__(self, upstream: "Upstream", connection: Connection) -> None:
        self._upstream = upstream
        self._connection = connection
        self._closed = False
        # Whether some of the body can be had without waiting, or it is known to be empty.
        self.has_begun = connection.has_body
        self.status = connection.status

    async def more(self) -> bytes | None:
        """What has come of the body, at least something; None at its end.

        Raises:
            EngineTimeoutError, EngineUnreachableError, EngineProtocolError.
        """
        try:
            return await self._connection.next_body(self._upstream.timeouts.between_bytes_s)
        except (TimeoutError, ConnectionLostError, EngineProtocolError) as error:
            raise self._broken_off(error) from error

    async def pour(
        self,
        take: Callable[[bytes], bool],
        straight: Callable[[bytes], bool | None] | None = None,
    ) -> None:
        """Hand the body to `take` as it comes, until that says False or the body has ended.

        `take` is called from where the body is read, outside of the caller's task and context, and
        so is `straight`, which has the first word where a read may begin with a chunk: it gets the
        bytes with their framing, takes whole chunks and nothing else, or says None.

        Raises:
            EngineTimeoutError, EngineUnreachableError, EngineProtocolError; what `take` raises.
        """
        try:
            within_s = self._upstream.timeouts.between_bytes_s
            await self._connection.pour(take, within_s, straight)
        except (TimeoutError, ConnectionLostError, EngineProtocolError) as error:
            raise self._broken_off(error) from error

    async def chunks(self) -> AsyncIterator[bytes]:
        """The body as it comes; raises as `more` does."""
        while (body := await self.more()) is not None:
            yield body

    async def begun(self) -> None:
        """Wait until the body has begun; what came of it is there for `chunks`.

        Closes the answer where it fails.

        Raises:
            EngineTimeoutError, EngineUnreachableError, EngineProtocolError.
        """
        url, timeout_s = self._upstream.url, self._upstream.timeouts.first_byte_s
        if self._connection.has_body:
            return
        try:
            await self._connection.wait_for_body(timeout_s)
        except TimeoutError as error:
            self.close()
            raise EngineTimeoutError(url, "first byte", timeout_s) from error
        except ConnectionLostError as error:
            self.close()
            raise EngineUnreachableError(url, error.problem) from error
        except EngineProtocolError as error:
            self.close()
            raise EngineProtocolError(url, error.problem) from error
        except BaseException:
            self.close()
            raise

    async def read(self) -> bytes:
        """The whole body."""
        if self._connection.complete:
            return self._connection.taken()
        first = await self.more()
        if first is None or self._connection.complete_and_read:
            return first or b""
        return b"".join([first, *[chunk async for chunk in self.chunks()]])

    def _broken_off(
        self, error: TimeoutError | ConnectionLostError | EngineProtocolError
    ) -> EngineError:
        """What went wrong with a body, with the engine's address."""
        url, timeout_s = self._upstream.url, self._upstream.timeouts.between_bytes_s
        match error:
            case TimeoutError():
                return EngineTimeoutError(url, "between bytes", timeout_s)
            case ConnectionLostError():
                return EngineUnreachableError(url, f"it broke off its answer: {error.problem}")
            case EngineProtocolError():
                return EngineProtocolError(url, error.problem)

    def close(self) -> None:
        """Give the connection back, or drop it where the body isn't finished.

        Does nothing the second time: a connection that is given back twice would serve two.
        """
        if not self._closed:
            self._closed = True
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
        self._idle: list[Connection] = []
        # How many more may be open, and who waits for one of them.
        self._free = max_connections
        self._waiting: deque[asyncio.Future[None]] = deque()

    async def send(
        self, method: str, path: str, *, headers: Headers = (), body: bytes = b""
    ) -> UpstreamResponse:
        """Send a request and wait for the answer's headers.

        Raises:
            EngineUnreachableError: no connection, or it broke before the answer began.
            EngineTimeoutError: no connection or no first byte in time.
            EngineProtocolError: the answer isn't HTTP.
        """
        return await self.exchange(self.serialised(method, path, headers, body))

    async def exchange(self, request: bytes) -> UpstreamResponse:
        """The same for a request that `serialised` gave."""
        if self._free:
            self._free -= 1
        else:
            await self._place()
        try:
            # In one coroutine: each more is entered again at every wake-up.
            connection = self._idle.pop() if self._idle else None
            if connection is None or not connection.alive:
                connection = self._take_idle() or await self._connect()
            try:
                await connection.start(request, self.timeouts.first_byte_s)
                while not connection.headers_done:
                    await connection.change()
            except BaseException as error:
                connection.close()
                if not isinstance(error, ConnectionLostError) or not connection.reused:
                    self._raise(error)
                    raise
                if error.answered:
                    raise EngineUnreachableError(self.url, error.problem) from error
                connection = await self._once_more(request)
        except BaseException:
            self._give_place()
            raise
        return UpstreamResponse(self, connection)

    def release(self, connection: Connection) -> None:
        """Take a connection back after its exchange."""
        if self._waiting:
            self._give_place()
        else:
            self._free += 1
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

    async def _once_more(self, request: bytes) -> Connection:
        """Over a fresh connection: the pooled one was dead before its answer began."""
        connection = await self._connect()
        try:
            await connection.start(request, self.timeouts.first_byte_s)
            while not connection.headers_done:
                await connection.change()
        except BaseException as error:
            connection.close()
            self._raise(error)
            raise
        return connection

    def _raise(self, error: BaseException) -> None:
        """What went wrong before an answer's headers had come, told with the engine's address;
        does nothing with other errors."""
        match error:
            case TimeoutError():
                timeout_s = self.timeouts.first_byte_s
                raise EngineTimeoutError(self.url, "first byte", timeout_s) from error
            case ConnectionLostError():
                raise EngineUnreachableError(self.url, error.problem) from error
            case EngineProtocolError():
                raise EngineProtocolError(self.url, error.problem) from error

    async def _place(self) -> None:
        """Until another exchange has ended."""
        place = asyncio.get_running_loop().create_future()
        self._waiting.append(place)
        try:
            await place
        except BaseException:
            if place.done() and not place.cancelled():
                self._give_place()
            raise

    def _give_place(self) -> None:
        while self._waiting:
            place = self._waiting.popleft()
            if not place.done():
                place.set_result(None)
                return
        self._free += 1

    def _take_idle(self) -> Connection | None:
        while self._idle:
            connection = self._idle.pop()
            if connection.alive:
                return connection
        return None

    async def _connect(self) -> Connection:
        loop = asyncio.get_running_loop()
        timeout_s = self.timeouts.connect_s
        try:
            async with asyncio.timeout(timeout_s):
                _, connection = await loop.create_connection(
                    Connection, self._host, self._port, ssl=self._tls
                )
        except TimeoutError as error:
            raise EngineTimeoutError(self.url, "connect", timeout_s) from error
        except OSError as error:
            problem = error.strerror or str(error)
            raise EngineUnreachableError(self.url, problem) from error
        return connection

    def serialised(self, method: str, path: str, headers: Headers, body: bytes) -> bytes:
        """A request as it goes over the wire."""
        before, after = self.framed(method, path, headers)
        return b"%b%d%b%b" % (before, len(body), after, body)

    def framed(self, method: str, path: str, headers: Headers) -> tuple[bytes, bytes]:
        """A request's head up to the length of its body, and from there on."""
        lines = [name + b": " + value + b"\r\n" for name, value in headers]
        before = b"%b %b%b HTTP/1.1\r\nhost: %b\r\ncontent-length: " % (
            method.encode(),
            self._prefix,
            path.encode(),
            self._authority,
        )
        return before, b"\r\n" + b"".join(lines) + b"\r\n"
