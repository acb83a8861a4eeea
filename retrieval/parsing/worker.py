"""The process that reads files: `python -m retrieval.parsing.worker FD MEMORY_BYTES SECONDS`.

Started by `retrieval.parsing.process` alone. It ends when the socket is closed, when a file takes
longer than it may (the gateway kills it, and if the gateway is gone, its own alarm does), or by
running out of memory.
"""

import os
import resource
import signal
import socket
import sys
from pathlib import Path

import msgspec

from retrieval.errors import ParsingLimitError, UnreadableDocumentError
from retrieval.parsing import parse, wire

# How long after the gateway would have killed it the process ends itself.
_ALARM_SLACK_S = 10.0
# Answering requests matters more than reading files.
_NICE = 5


def main() -> None:
    descriptor, memory_bytes, seconds = int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
    os.nice(_NICE)
    with socket.socket(fileno=descriptor) as connection:
        _limit_memory(memory_bytes)
        connection.sendall(wire.encoded(wire.Ready()))
        while _serve_one(connection, seconds):
            pass


def _limit_memory(memory_bytes: int) -> None:
    """Bounds the address space: libraries and what is loaded, and so much more."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = pages * resource.getpagesize() + memory_bytes
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _serve_one(connection: socket.socket, seconds: float) -> bool:
    """Reads one file; False when there are no more, or no memory to go on with."""
    try:
        (size_bytes,) = wire.HEADER.unpack(wire.receive_exactly(connection, wire.HEADER.size))
    except (EOFError, ConnectionError):
        return False
    job = msgspec.json.decode(wire.receive_exactly(connection, size_bytes), type=wire.Job)
    signal.setitimer(signal.ITIMER_REAL, seconds + _ALARM_SLACK_S)
    try:
        message = wire.encoded(_reply(job.name, connection, job.size_bytes))
    except MemoryError:
        connection.sendall(wire.encoded(wire.OutOfMemory()))
        return False
    signal.setitimer(signal.ITIMER_REAL, 0)
    connection.sendall(message)
    return True


def _reply(name: str, connection: socket.socket, size_bytes: int) -> wire.Reply:
    try:
        return wire.Parsed(parse(name, bytes(wire.receive_exactly(connection, size_bytes))))
    except ParsingLimitError as error:
        return wire.TooMuch(limit=error.limit, value=error.value, unit=error.unit)
    except UnreadableDocumentError as error:
        return wire.Failed(why=error.why)


if __name__ == "__main__":
    main()
