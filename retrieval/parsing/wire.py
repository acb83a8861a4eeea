"""What passes between the gateway and the process that reads files.

A message is a length (4 bytes, big-endian) and that much JSON; a job is followed by the file's
bytes. The process says `Ready` once, then gives one reply to each job, with `Read` before it if
passages are asked for.
"""

import socket
import struct

import msgspec

from retrieval.documents import ParsedDocument, Passage

HEADER = struct.Struct(">I")
# Whatever claims to be longer is no message of ours.
MAX_MESSAGE_BYTES = 1 << 30


class Ready(msgspec.Struct, frozen=True, tag=True):
    """The parsers are loaded and the limits stand."""


class Cutting(msgspec.Struct, frozen=True):
    """How passages are cut.

    Attributes:
        tokenizer: folder of the model whose tokens are counted; None: words and single signs.
    """

    max_tokens: int
    min_tokens: int | None = None
    tokenizer: str | None = None


class Job(msgspec.Struct, frozen=True):
    """A file to read, and to cut if that is said; `size_bytes` of it follow."""

    name: str
    size_bytes: int
    cutting: Cutting | None = None


class Read(msgspec.Struct, frozen=True, tag=True):
    """It was read; cutting, which has a time of its own, begins."""


class Parsed(msgspec.Struct, frozen=True, tag=True):
    """It was read, and cut if that was asked for; then the blocks are left out."""

    document: ParsedDocument
    passages: tuple[Passage, ...] = ()


class NoTokenizer(msgspec.Struct, frozen=True, tag=True):
    """What passages are measured by can't be had; no file's fault."""

    why: str


class Failed(msgspec.Struct, frozen=True, tag=True):
    """It can't be read: `UnreadableDocumentError`."""

    why: str


class TooMuch(msgspec.Struct, frozen=True, tag=True):
    """It breaks a limit: `ParsingLimitError`."""

    limit: str
    value: int
    unit: str


class OutOfMemory(msgspec.Struct, frozen=True, tag=True):
    """It needs more memory than the process may take."""


Reply = Read | Parsed | NoTokenizer | Failed | TooMuch | OutOfMemory


def encoded(message: msgspec.Struct) -> bytes:
    """A message with its length before it."""
    body = msgspec.json.encode(message)
    return HEADER.pack(len(body)) + body


def receive_exactly(connection: socket.socket, size_bytes: int) -> bytearray:
    """So many bytes from a socket.

    Raises:
        EOFError: the other side closed it before.
        TimeoutError: the socket's own time-out, for each read.
    """
    data = bytearray(size_bytes)
    view = memoryview(data)
    received = 0
    while received < size_bytes:
        count = connection.recv_into(view[received:])
        if count == 0:
            raise EOFError
        received += count
    return data
