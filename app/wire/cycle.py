"""One request and its answer: uvicorn's, with what an answer costs brought down.

The head waits for the first piece of the body, as ASGI has it, and both go in one write. `send`
returns without a coroutine of its own where it needn't wait.

Source: uvicorn 0.54 protocols/http/httptools_impl.py (RequestResponseCycle).
"""

from collections.abc import Awaitable, Generator, Iterable
from typing import Any

import orjson
from starlette.types import Message
from uvicorn.protocols.http.httptools_impl import (
    HEADER_RE,
    HEADER_VALUE_RE,
    STATUS_LINE,
    RequestResponseCycle,
)

from app.problems import error_body

# Names that needn't be looked at for what a name may not hold.
_NAMES = frozenset(
    {b"cache-control", b"content-length", b"content-type", b"x-accel-buffering", b"x-request-id"}
)
_NO_BODY = frozenset({204, 304})


_FAULT = orjson.dumps(error_body(Exception()))


class _Done:
    """Awaited, it is done."""

    __slots__ = ()

    def __await__(self) -> Generator[Any, None, None]:
        return
        yield


_DONE = _Done()


class Cycle(RequestResponseCycle):
    """One request and its answer; `response_started` says that some of it has been written.

    Attributes:
        status: of the answer; 0 until that begins.
        is_last: of its connection, which isn't closed here, though, but by who set this.
    """

    status = 0
    is_last = False
    _head: bytes | None = None
    _ends_by_closing = False

    def send(self, message: Message) -> Awaitable[None]:  # type: ignore[override]
        """ASGI."""
        if self.disconnected:
            return _DONE
        if self.flow.write_paused:
            return self._send_later(message)
        self._take(message)
        return _DONE

    async def send_500_response(self) -> None:
        """For an app that failed before anything was written."""
        if self.disconnected:
            return
        self._head = None
        self.chunked_encoding = None
        self._ends_by_closing = False
        self.expected_content_length = 0
        start = [
            (b"content-type", b"application/json"),
            (b"content-length", b"%d" % len(_FAULT)),
            (b"connection", b"close"),
        ]
        self._take({"type": "http.response.start", "status": 500, "headers": start})
        self._take({"type": "http.response.body", "body": _FAULT, "more_body": False})

    async def _send_later(self, message: Message) -> None:
        await self.flow.drain()
        if not self.disconnected:
            self._take(message)

    def _take(self, message: Message) -> None:
        kind = message["type"]
        if self.response_complete:
            raise RuntimeError(f"the answer is complete, and then comes {kind!r}")
        if not self.response_started and self._head is None:
            if kind != "http.response.start":
                raise RuntimeError(f"an answer begins with its head, not with {kind!r}")
            self.status = message["status"]
            self._head = self._made_head(self.status, message.get("headers", ()))
        elif kind != "http.response.body":
            raise RuntimeError(f"a head is followed by a body, not by {kind!r}")
        else:
            self._write(message.get("body", b""), message.get("more_body", False))

    def _made_head(self, status: int, headers: Iterable[tuple[bytes, bytes]]) -> bytes:
        self.waiting_for_100_continue = False
        lines = [STATUS_LINE[status]]
        for name, value in self.default_headers:
            lines += (name, b": ", value, b"\r\n")
        says_close = False
        for name, value in headers:
            if name not in _NAMES:
                if HEADER_RE.search(name):
                    raise RuntimeError(f"{name!r} can't be a header's name")
                name = name.lower()
            if HEADER_VALUE_RE.search(value):
                raise RuntimeError(f"{name!r} can't have the value {value!r}")
            if name == b"content-length" and self.chunked_encoding is None:
                self.expected_content_length = int(value)
                self.chunked_encoding = False
            elif name == b"transfer-encoding" and value.lower() == b"chunked":
                self.expected_content_length = 0
                self.chunked_encoding = True
            elif name == b"connection":
                says_close |= b"close" in [token.strip() for token in value.lower().split(b",")]
            lines += (name, b": ", value, b"\r\n")
        if says_close:
            self.keep_alive = False
        elif self.is_last or not self.keep_alive:
            lines.append(b"connection: close\r\n")
        has_body = self.scope["method"] != "HEAD" and status not in _NO_BODY
        if self.chunked_encoding is None and has_body:
            # HTTP/1.0 knows no chunks: there the connection's end is the body's (RFC 9112, 6.1).
            self.chunked_encoding = self.scope["http_version"] != "1.0"
            self._ends_by_closing = not self.chunked_encoding
            if self.chunked_encoding:
                lines.append(b"transfer-encoding: chunked\r\n")
        lines.append(b"\r\n")
        return b"".join(lines)

    def _write(self, body: bytes, more: bool) -> None:
        head, self._head = self._head or b"", None
        if self.scope["method"] == "HEAD":
            self.expected_content_length = 0
            body = b""
        elif self.chunked_encoding:
            body = b"%x\r\n%b\r\n" % (len(body), body) if body else b""
            if not more:
                body += b"0\r\n\r\n"
        elif self._ends_by_closing:
            pass
        elif len(body) > self.expected_content_length:
            raise RuntimeError("the body is longer than its Content-Length says")
        else:
            self.expected_content_length -= len(body)
        self.response_started = True
        if head or body:
            self.transport.write(head + body if head else body)
        if more:
            return
        if self.expected_content_length != 0:
            raise RuntimeError("the body is shorter than its Content-Length says")
        self.response_complete = True
        self.message_event.set()
        if not self.keep_alive:
            self.transport.close()
        self.on_response()
