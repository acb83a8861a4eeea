"""The process that reads files: `python -m retrieval.parsing.worker FD MEMORY_BYTES SECONDS`.

It also cuts them if that is asked for: measuring passages takes longer than reading. Started by
`retrieval.parsing.process` alone. It ends when the socket is closed, when a file takes longer than
it may (the gateway kills it, and if the gateway is gone, its own alarm does), or by running out of
memory.
"""

import os
import resource
import signal
import socket
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import msgspec

from retrieval.chunking import ChunkingSettings, chunk
from retrieval.documents import ParsedDocument
from retrieval.embed import HashingEmbedder
from retrieval.embed_models import open_tokenizer, token_count
from retrieval.errors import EmbedderError, ParsingLimitError, UnreadableDocumentError
from retrieval.parsing import wire
from retrieval.parsing.formats import parsed

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
        reader = _Reader(connection, seconds)
        while reader.serve_one():
            pass


def _limit_memory(memory_bytes: int) -> None:
    """Bounds the address space: libraries and what is loaded, and so much more."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = pages * resource.getpagesize() + memory_bytes
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


class _Reader:
    """Answers jobs, and remembers the tokenizers that they name."""

    def __init__(self, connection: socket.socket, seconds: float) -> None:
        self._connection = connection
        self._seconds = seconds
        self._counters: dict[str | None, Callable[[str], int]] = {
            None: HashingEmbedder().count_tokens
        }

    def serve_one(self) -> bool:
        """Reads one file; False when there are no more, or no memory to go on with."""
        try:
            job = msgspec.json.decode(self._received(self._size()), type=wire.Job)
        except (EOFError, ConnectionError):
            return False
        try:
            message = wire.encoded(self._reply(job))
        except MemoryError:
            self._connection.sendall(wire.encoded(wire.OutOfMemory()))
            return False
        signal.setitimer(signal.ITIMER_REAL, 0)
        self._connection.sendall(message)
        return True

    def _reply(self, job: wire.Job) -> wire.Reply:
        self._set_alarm()
        try:
            document = parsed(job.name, bytes(self._received(job.size_bytes)))
        except ParsingLimitError as error:
            return wire.TooMuch(limit=error.limit, value=error.value, unit=error.unit)
        except UnreadableDocumentError as error:
            return wire.Failed(why=error.why)
        return wire.Parsed(document) if job.cutting is None else self._cut(document, job.cutting)

    def _cut(self, document: ParsedDocument, cutting: wire.Cutting) -> wire.Reply:
        self._connection.sendall(wire.encoded(wire.Read()))
        self._set_alarm()
        sizes = ChunkingSettings(max_tokens=cutting.max_tokens, min_tokens=cutting.min_tokens)
        try:
            count_tokens = self._counter(cutting.tokenizer)
        except EmbedderError as error:
            return wire.NoTokenizer(why=error.why)
        passages = chunk(document, count_tokens=count_tokens, settings=sizes)
        return wire.Parsed(replace(document, blocks=()), tuple(passages))

    def _counter(self, folder: str | None) -> Callable[[str], int]:
        if folder not in self._counters:
            tokenizer = open_tokenizer(str(folder), Path(str(folder)))
            self._counters[folder] = partial(token_count, tokenizer)
        return self._counters[folder]

    def _set_alarm(self) -> None:
        signal.setitimer(signal.ITIMER_REAL, self._seconds + _ALARM_SLACK_S)

    def _size(self) -> int:
        (size_bytes,) = wire.HEADER.unpack(self._received(wire.HEADER.size))
        return int(size_bytes)

    def _received(self, size_bytes: int) -> bytearray:
        return wire.receive_exactly(self._connection, size_bytes)


if __name__ == "__main__":
    main()
