"""One HTTP/1.1 connection: one exchange at a time, each piece of the body with its time."""

import asyncio
import time
from typing import cast

import httptools

Piece = tuple[float, bytes]


class Connection(asyncio.Protocol):
    """Stamps what comes when it comes, and looks at it when all is there."""

    def __init__(self) -> None:
        self.pieces: list[Piece] = []
        self.status: int | None = None
        self.content_type = b""
        self.complete = False
        self.used = False
        self.problem: str | None = None
        self.ended: float | None = None
        self._transport: asyncio.Transport | None = None
        self._parser = httptools.HttpResponseParser(self)
        self._keep_alive = True
        self._now = 0.0
        self._done: asyncio.Future[None] | None = None

    # asyncio.Protocol
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self._now = time.perf_counter()
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            self.problem = f"the answer is not HTTP: {error}"
            self.close()
            self._finish()

    def connection_lost(self, exc: Exception | None) -> None:
        self._keep_alive = False
        if not self.complete and self.problem is None:
            self.problem = f"the connection broke{f': {exc}' if exc else ''}"
        self._finish()

    # httptools callbacks
    def on_header(self, name: bytes, value: bytes) -> None:
        if name.lower() == b"content-type":
            self.content_type = value

    def on_headers_complete(self) -> None:
        status = self._parser.get_status_code()
        self.status = status if status >= 200 else None

    def on_body(self, body: bytes) -> None:
        self.pieces.append((self._now, body))

    def on_message_complete(self) -> None:
        if self.status is None:
            return  # a 1xx: the real answer follows
        self.complete = True
        self.ended = self._now
        self._keep_alive = self._parser.should_keep_alive()
        self._finish()

    @property
    def alive(self) -> bool:
        """Whether it can carry another exchange."""
        return self._keep_alive and self.problem is None and self._transport is not None

    @property
    def unanswered(self) -> bool:
        """Whether nothing at all came back: it may have been closed before it was used again."""
        return self.status is None and not self.pieces

    def start(self, request: bytes) -> asyncio.Future[None]:
        """Send a request; the future is done when its answer has ended, or never will."""
        self.pieces, self.status, self.content_type = [], None, b""
        self.complete, self.ended = False, None
        self._parser = httptools.HttpResponseParser(self)
        self._done = asyncio.get_running_loop().create_future()
        if self._transport is None or self.problem is not None:
            self._finish()
        else:
            self._transport.write(request)
        return self._done

    def close(self) -> None:
        """At once, whatever is still to come."""
        self._keep_alive = False
        if self._transport is not None:
            self._transport.abort()

    def _finish(self) -> None:
        if self._done is not None and not self._done.done():
            self._done.set_result(None)
