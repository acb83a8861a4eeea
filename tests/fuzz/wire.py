"""The guarded protocol, fed from memory."""

import asyncio
from collections import Counter

import uvicorn
from starlette.types import Receive, Scope, Send
from uvicorn.server import ServerState

from app.settings import WireSettings
from app.wire import GuardedProtocol


class _Transport(asyncio.Transport):
    """A socket's end that remembers what was written."""

    def __init__(self) -> None:
        super().__init__({"peername": ("127.0.0.1", 1), "sockname": ("127.0.0.1", 2)})
        self.written = b""
        self.is_closed = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        assert not self.is_closed, "written to after it was closed"
        self.written += bytes(data)

    def write_eof(self) -> None: ...

    def can_write_eof(self) -> bool:
        return True

    def close(self) -> None:
        self.is_closed = True

    def abort(self) -> None:
        self.is_closed = True

    def is_closing(self) -> bool:
        return self.is_closed

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...


def feed_protocol(data: bytes) -> None:
    """Whatever the bytes, there is at most one answer for each request line, each of them whole."""
    asyncio.run(_feed(data))


async def _feed(data: bytes) -> None:
    asked = 0

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        nonlocal asked
        asked += 1
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                return
            if not message["more_body"]:
                break
        headers = [(b"content-length", b"2")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": b"ok"})

    config = uvicorn.Config(app, log_config=None, ws="none", lifespan="off")
    config.load()
    refused: Counter[str] = Counter()
    protocol = GuardedProtocol(config, ServerState(), {}, limits=WireSettings(), refused=refused)
    transport = _Transport()
    protocol.connection_made(transport)
    middle = len(data) // 2
    for part in (data[:middle], data[middle:]):
        if part and not transport.is_closed:
            protocol.data_received(part)
        for _ in range(5):
            await asyncio.sleep(0)
    protocol.connection_lost(None)
    for _ in range(5):
        await asyncio.sleep(0)
    answers = transport.written.count(b"HTTP/1.1 200") + transport.written.count(b"HTTP/1.1 4")
    assert answers <= asked + sum(refused.values())
    assert len(asyncio.all_tasks()) == 1, "a request goes on without its client"
