"""What an embedding process and its owner say to each other, over a socket.

Each message is one frame of JSON, not pickle; a `Reply` with rows is followed by a frame of them,
float32 little-endian.
"""

import socket
import struct

import msgspec

_HEADER = struct.Struct("<Q")
# Far above any batch; a longer frame means that the other side is broken.
_MAX_FRAME_BYTES = 1 << 28


class Ask(msgspec.Struct, frozen=True):
    """Texts to embed."""

    texts: list[str]
    is_query: bool


class Ready(msgspec.Struct, frozen=True):
    """The model is loaded; or it can't be, and why."""

    dimension: int = 0
    problem: str | None = None


class Reply(msgspec.Struct, frozen=True):
    """How many rows follow; or none, and why."""

    rows: int = 0
    dimension: int = 0
    problem: str | None = None


def send(channel: socket.socket, *frames: bytes) -> None:
    """Sends frames. Raises OSError."""
    for frame in frames:
        channel.sendall(_HEADER.pack(len(frame)))
        channel.sendall(frame)


def receive(channel: socket.socket) -> bytes:
    """The next frame.

    Raises:
        EOFError: the other side has gone, or what it says is no frame.
        OSError: the socket is broken, or its timeout is over.
    """
    (size_bytes,) = _HEADER.unpack(_exactly(channel, _HEADER.size))
    if size_bytes > _MAX_FRAME_BYTES:
        raise EOFError
    return bytes(_exactly(channel, size_bytes))


def _exactly(channel: socket.socket, size_bytes: int) -> bytearray:
    data = bytearray(size_bytes)
    view = memoryview(data)
    done = 0
    while done < size_bytes:
        count = channel.recv_into(view[done:])
        if not count:
            raise EOFError
        done += count
    return data
