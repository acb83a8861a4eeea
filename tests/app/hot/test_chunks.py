"""Chunks that are written without messages."""

import asyncio
from typing import cast

import pytest

from app.hot.chunks import ChunkWriter, put_writer, writer_of

pytestmark = pytest.mark.anyio


class Wire(asyncio.Transport):
    """Keeps what is written."""

    def __init__(self) -> None:
        super().__init__()
        self.written = b""

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written += bytes(data)


class Reader:
    """A client that may be slow."""

    def __init__(self) -> None:
        self.write_paused = False
        self.waited = 0

    async def drain(self) -> None:
        self.waited += 1
        self.write_paused = False


async def test_a_piece_is_framed_and_counted() -> None:
    wire = Wire()
    writer = ChunkWriter(wire, Reader())
    assert writer.write(b"data: x\n\n")
    assert writer.write(b"y" * 17)
    assert wire.written == b"9\r\ndata: x\n\n\r\n11\r\n" + b"y" * 17 + b"\r\n"
    assert writer.sent_bytes == 26


async def test_a_slow_client_is_waited_for() -> None:
    reader = Reader()
    writer = ChunkWriter(Wire(), reader)
    await writer.drained()
    assert reader.waited == 0
    reader.write_paused = True
    assert not writer.write(b"x")
    await writer.drained()
    assert reader.waited == 1
    assert writer.write(b"x")


async def test_nothing_is_written_to_who_is_gone() -> None:
    wire = Wire()
    writer = ChunkWriter(wire, Reader())
    writer.gone = True
    assert writer.write(b"x")
    assert (wire.written, writer.sent_bytes) == (b"", 0)


async def test_a_request_has_the_writer_that_was_put_there() -> None:
    writer = ChunkWriter(Wire(), Reader())
    scope = {"type": "http", "state": cast(dict[str, object], {})}
    assert writer_of(scope) is None
    put_writer(scope, writer)
    assert writer_of(scope) is writer
