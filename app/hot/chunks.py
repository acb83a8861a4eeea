"""A stream's chunks on their way to the client, without a message for each.

The connection's protocol puts a writer into the request's state; where none did, chunks go as ASGI
messages.
"""

import asyncio
from typing import Protocol

from starlette.types import Scope

_STATE = "chunk_writer"


class Flow(Protocol):
    """Whether the client keeps up."""

    write_paused: bool

    async def drain(self) -> None:
        """Until it does."""


class ChunkWriter:
    """Writes pieces of a body whose head has been sent, and which is chunked."""

    __slots__ = ("_flow", "_transport", "gone", "sent_bytes")

    def __init__(self, transport: asyncio.Transport, flow: Flow) -> None:
        self._transport = transport
        self._flow = flow
        self.sent_bytes = 0
        self.gone = False
        """Whether the client is; what is written then goes nowhere."""

    def write(self, body: bytes) -> bool:
        """Send a piece; False: the client reads too slowly, and `drained` is to be waited for."""
        if self.gone:
            return True
        self.sent_bytes += len(body)
        self._transport.write(b"%x\r\n%b\r\n" % (len(body), body))
        return not self._flow.write_paused

    def write_framed(self, chunks: bytes, size: int) -> bool:
        """Send pieces that are in their framing; without it they have `size` bytes."""
        if self.gone:
            return True
        self.sent_bytes += size
        self._transport.write(chunks)
        return not self._flow.write_paused

    async def drained(self) -> None:
        """Until the client has read enough of what was written, or is gone."""
        if self._flow.write_paused:
            await self._flow.drain()


def put_writer(scope: Scope, writer: ChunkWriter) -> None:
    """For whoever serves the connection: `writer_of` will find it."""
    scope["state"][_STATE] = writer


def writer_of(scope: Scope) -> ChunkWriter | None:
    """What writes the chunks of a request's answer; None where they are to be sent as messages."""
    writer = scope["state"].get(_STATE)
    return writer if isinstance(writer, ChunkWriter) else None
