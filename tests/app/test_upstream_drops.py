"""An upstream that drops connections at any moment makes no request hang, and mixes up none."""

import asyncio
import os
import random
from collections import Counter
from contextlib import suppress
from typing import cast

import pytest
import uvloop

from app.errors import EngineError
from app.upstream import Timeouts, Upstream, UpstreamResponse

_REQUESTS = int(os.environ.get("FOREWORD_TEST_DROPS", "4000"))
_AT_ONCE = 32
_CONNECTIONS = 24
_HANG_S = 20.0
_LARGE = 600_000


class _Dropping(asyncio.Protocol):
    """Answers with what it was sent, in pieces and of several sizes, and drops one in some."""

    def __init__(self, source: random.Random) -> None:
        self._source = source
        self._got = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self._got += data
        head, found, body = self._got.partition(b"\r\n\r\n")
        if not found:
            return
        length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
        if len(body) < length:
            return
        self._got = body[length:]
        self._answer(body[:length])

    def _answer(self, asked: bytes) -> None:
        what = self._source.random()
        if what < 0.03:
            self._transport.abort()
            return
        size = _LARGE if what > 0.995 else self._source.choice((0, 1, 200, 5_000))
        body = asked + b"x" * size
        if self._source.random() < 0.5:
            raw = b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%b" % (len(body), body)
        else:
            cut = self._source.randrange(len(body) + 1)
            parts = [part for part in (body[:cut], body[cut:]) if part]
            chunks = b"".join([b"%x\r\n%b\r\n" % (len(part), part) for part in parts])
            raw = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n" + chunks + b"0\r\n\r\n"
        loop = asyncio.get_running_loop()
        if what < 0.06:
            self._write(raw[: self._source.randrange(1, len(raw))])
            loop.call_soon(self._transport.close)
        elif what < 0.09:
            self._write(raw)
            loop.call_later(self._source.choice((0, 0.001)), self._transport.close)
        elif what < 0.5:
            cut = self._source.randrange(1, len(raw))
            self._write(raw[:cut])
            loop.call_later(self._source.choice((0, 0.0005)), self._write, raw[cut:])
        else:
            self._write(raw)

    def _write(self, data: bytes) -> None:
        if not self._transport.is_closing():
            self._transport.write(data)


async def _ask(upstream: Upstream, number: int, source: random.Random) -> str:
    asked = b"<%d>" % number
    try:
        response = await upstream.send("POST", "/", body=asked)
        try:
            await response.begun()
            if source.random() < 0.02:
                return "left"  # with the rest of the answer unread
            body = await response.read()
        finally:
            response.close()
    except EngineError as error:
        return type(error).__name__
    assert body.startswith(asked)
    assert set(body[len(asked) :]) <= set(b"x")
    return "whole"


async def _hold_all(upstream: Upstream) -> None:
    """Every connection that may be there can still be had, all at once."""
    held: list[UpstreamResponse] = []
    async with asyncio.timeout(_HANG_S):
        while len(held) < _CONNECTIONS:
            with suppress(EngineError):
                held.append(await upstream.send("POST", "/", body=b"<0>"))
    for response in held:
        response.close()


async def _soak(requests: int, seed: int) -> Counter[str]:
    source = random.Random(seed)
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: _Dropping(source), "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    timeouts = Timeouts(connect_s=10, first_byte_s=_HANG_S, between_bytes_s=_HANG_S)
    upstream = Upstream(f"http://127.0.0.1:{port}", timeouts=timeouts, max_connections=_CONNECTIONS)
    left = iter(range(requests))
    ends: Counter[str] = Counter()

    async def work() -> None:
        for number in left:
            task = asyncio.ensure_future(_ask(upstream, number, source))
            if source.random() < 0.02:
                await asyncio.sleep(source.choice((0, 0.001)))
                task.cancel()
            try:
                ends[await task] += 1
            except asyncio.CancelledError:
                ends["cancelled"] += 1

    await asyncio.gather(*(work() for _ in range(_AT_ONCE)))
    await _hold_all(upstream)
    upstream.close()
    server.close()
    return ends


@pytest.mark.slow
def test_dropped_connections_neither_hang_nor_mix_up_answers() -> None:
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        ends = runner.run(_soak(_REQUESTS, seed=1))
    assert sum(ends.values()) == _REQUESTS
    assert set(ends) <= {"whole", "left", "cancelled", "EngineUnreachableError"}, ends
    assert ends["whole"] > 0.85 * _REQUESTS
