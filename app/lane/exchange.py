"""A request that the lane answers, as its connection sees it: it stands where uvicorn has a cycle,
and is the request's departure too."""

import asyncio
from collections.abc import Iterable
from typing import Any, Protocol

from uvicorn.protocols.http.httptools_impl import STATUS_LINE

from app.hot.chunks import ChunkWriter, Flow
from app.hot.departure import Departure


class Line(Protocol):
    """The client's connection."""

    transport: asyncio.Transport
    flow: Any
    server_state: Any

    def on_response_complete(self) -> None:
        """An answer has been written."""


class _NoEvent:
    """Nobody waits for a message of a request that has come whole."""

    __slots__ = ()

    def set(self) -> None:
        return


class Exchange(Departure):
    """Writes one answer.

    Attributes:
        response_started, response_complete, keep_alive, disconnected, message_event: as uvicorn's
            protocol knows them of its cycles.
        is_last: of its connection, which isn't closed here, though, but by who set this.
        status: of the answer; None until it begins.
        task: answers it; the client's going cancels it.
        sent_bytes: of the answer's body, but for what went through the writer.
        writer: of a streamed answer's chunks, once it has begun.
    """

    __slots__ = (
        "_headers",
        "_line",
        "disconnected",
        "is_last",
        "keep_alive",
        "response_complete",
        "response_started",
        "sent_bytes",
        "status",
        "writer",
    )
    message_event = _NoEvent()

    def __init__(self, line: Line) -> None:
        super().__init__()
        self._line = line
        self._headers: Iterable[tuple[bytes, bytes]] = ()
        self.sent_bytes = 0
        self.disconnected = self.is_last = False
        self.keep_alive = True
        self.response_started = self.response_complete = False
        self.status: int | None = None
        self.writer: ChunkWriter | None = None

    def left(self) -> None:
        """The client is gone."""
        self.disconnected = True
        if self.writer is not None:
            self.writer.gone = True
        super().left()

    @property
    def flow(self) -> Flow:
        """Whether the client keeps up."""
        flow: Flow = self._line.flow
        return flow

    def whole(self, status: int, headers: Iterable[tuple[bytes, bytes]], content: bytes) -> None:
        """A whole answer, in one write."""
        self.status = status
        if self.gone:
            return
        self.response_started = True
        self.sent_bytes = len(content)
        self._line.transport.write(self._head(status, headers) + content)
        self._end()

    async def begin(self, headers: Iterable[tuple[bytes, bytes]]) -> ChunkWriter:
        """The head of an answer in chunks; it goes out with the first of them."""
        line = self._line
        self.status, self._headers = 200, headers
        self.writer = ChunkWriter(line.transport, line.flow)
        self.writer.gone = self.gone
        if line.flow.write_paused:
            await line.flow.drain()
        return self.writer

    async def piece(self, body: bytes) -> None:
        """A chunk; the first one may be empty."""
        if self._line.flow.write_paused:
            await self._line.flow.drain()
        self.sent_bytes += len(body)
        if self.gone:
            return
        data = b"%x\r\n%b\r\n" % (len(body), body) if body else b""
        if not self.response_started:
            self.response_started = True
            data = self._head(200, self._headers, b"transfer-encoding: chunked\r\n") + data
        if data:
            self._line.transport.write(data)

    async def end(self) -> None:
        """All chunks have been written."""
        if self._line.flow.write_paused:
            await self._line.flow.drain()
        if not self.gone:
            self._line.transport.write(b"0\r\n\r\n")
            self._end()

    def fail(self, status: int, headers: Iterable[tuple[bytes, bytes]], content: bytes) -> None:
        """The app has a fault: an answer that was begun is broken off."""
        if self.response_started:
            self._line.transport.close()
        else:
            self.whole(status, headers, content)

    def _end(self) -> None:
        self.response_complete = True
        if not self.keep_alive:
            self._line.transport.close()
        self._line.on_response_complete()

    def _head(
        self, status: int, headers: Iterable[tuple[bytes, bytes]], framing: bytes = b""
    ) -> bytes:
        lines: list[bytes] = [STATUS_LINE[status]]
        for name, value in (*self._line.server_state.default_headers, *headers):
            lines += (name, b": ", value, b"\r\n")
        if self.is_last or not self.keep_alive:
            lines.append(b"connection: close\r\n")
        lines += (framing, b"\r\n")
        return b"".join(lines)
