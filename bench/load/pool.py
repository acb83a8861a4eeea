"""Exchanges with one server over connections that are kept, plain or by TLS."""

import asyncio
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import SplitResult, urlsplit

from bench.errors import TargetError
from bench.load.connection import Connection, Piece

_CONNECT_S = 30.0


@dataclass(slots=True, kw_only=True)
class Exchange:
    """What came back.

    Attributes:
        status: None where no answer began.
        pieces: of the body, each with the time at which it came (`time.perf_counter`).
        ended: when the last of it came, by the same clock; None: it did not come to its end.
        problem: why it did not; None: it did.
    """

    status: int | None = None
    content_type: bytes = b""
    pieces: list[Piece] = field(default_factory=list)
    ended: float | None = None
    problem: str | None = None

    @property
    def body(self) -> bytes:
        return b"".join(piece for _, piece in self.pieces)


class Pool:
    """As many connections as there are exchanges at a time.

    Args:
        base_url: what `/v1` is under, or `…/v1` itself.
        headers: sent with every request.
        timeout_s: for one exchange, from sending to its end.

    Raises:
        TargetError: the URL isn't one of http or https.
    """

    def __init__(self, base_url: str, *, headers: Mapping[str, str], timeout_s: float) -> None:
        self._parts = _checked(base_url)
        self.base_url = base_url.rstrip("/").removesuffix("/v1")
        self._base_path = self._parts.path.rstrip("/").removesuffix("/v1")
        self._host = self._parts.hostname or ""
        secure = self._parts.scheme == "https"
        self._port = self._parts.port or (443 if secure else 80)
        self._tls = ssl.create_default_context() if secure else None
        self._headers = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        self._timeout_s = timeout_s
        self._idle: list[Connection] = []
        self._busy: set[Connection] = set()

    def request(self, method: str, path: str, body: bytes = b"") -> bytes:
        """The bytes of a request; `path` is under the base URL."""
        head = (
            f"{method} {self._base_path}{path} HTTP/1.1\r\nhost: {self._parts.netloc}\r\n"
            f"{self._headers}content-type: application/json\r\naccept: */*\r\n"
            f"content-length: {len(body)}\r\n\r\n"
        )
        return head.encode() + body

    async def exchange(self, request: bytes) -> Exchange:
        """Send it and wait for the end of its answer; whatever goes wrong is in the result."""
        connection = self._take()
        if connection is not None:
            made = await self._carried(connection, request)
            if not (made.problem and connection.unanswered) or made.problem == _TIMED_OUT:
                return made
            # The server had closed it meanwhile; the request never reached it.
        try:
            connection = await self._connect()
        except (OSError, TimeoutError) as error:
            told = str(error) or "it took too long"
            return Exchange(problem=f"no connection: {told}")
        return await self._carried(connection, request)

    async def warm_up(self, connections: int) -> None:
        """Open connections ahead, so that opening them isn't measured.

        Raises:
            TargetError: nobody listens.
        """
        try:
            made = [await self._connect() for _ in range(connections - len(self._idle))]
        except (OSError, TimeoutError) as error:
            raise TargetError(self.base_url, f"can't be reached: {error}") from error
        self._idle += made

    def close(self) -> None:
        """End all connections."""
        for connection in (*self._idle, *self._busy):
            connection.close()
        self._idle.clear()

    async def _carried(self, connection: Connection, request: bytes) -> Exchange:
        self._busy.add(connection)
        done = connection.start(request)
        timer = asyncio.get_running_loop().call_later(self._timeout_s, _time_out, connection)
        try:
            await done
        finally:
            timer.cancel()
            self._busy.discard(connection)
            if not done.done() or done.cancelled():
                connection.close()
        if connection.alive:
            self._idle.append(connection)
        return Exchange(
            status=connection.status,
            content_type=connection.content_type,
            pieces=connection.pieces,
            ended=connection.ended,
            problem=None if connection.complete else connection.problem or "the connection broke",
        )

    def _take(self) -> Connection | None:
        while self._idle:
            connection = self._idle.pop()
            if connection.alive:
                return connection
        return None

    async def _connect(self) -> Connection:
        loop = asyncio.get_running_loop()
        async with asyncio.timeout(_CONNECT_S):
            _, connection = await loop.create_connection(
                Connection,
                self._host,
                self._port,
                ssl=self._tls,
                server_hostname=self._host if self._tls else None,
            )
        return connection


_TIMED_OUT = "timed out"


def _time_out(connection: Connection) -> None:
    connection.problem = _TIMED_OUT
    connection.close()


def _checked(base_url: str) -> SplitResult:
    try:
        parts = urlsplit(base_url)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        usable = False
    if usable and parts.username is not None:
        # It would be written into the run's folder.
        raise TargetError(f"{parts.scheme}://{parts.hostname}", "is given a key: use --api-key-env")
    if not usable:
        raise TargetError(base_url, "is not an http or https URL, such as http://127.0.0.1:8400")
    return parts
