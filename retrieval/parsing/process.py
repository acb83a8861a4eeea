"""Files are read in a process of its own, so that none can hurt the gateway.

A crafted file can make a parser take all memory, run for ever or crash. The process is started at
first use, used again for one file after another, and ended and replaced when it breaks a limit.
It answers in JSON, not pickle: a parser that a file has taken over can't run code here.
"""

import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import msgspec

from retrieval.documents import ParsedDocument, Passage
from retrieval.errors import ParserUnavailableError, ParsingLimitError, UnreadableDocumentError
from retrieval.parsing import wire
from retrieval.parsing.limits import ParsingLimits

_PACKAGE_ROOT = Path(__file__).parents[2]
# Importing the parsers takes about a second on an idle core.
_START_S = 60.0
# Memory allocators don't give everything back: a new process now and then starts small again.
_FILES_PER_PROCESS = 256
_BROKE = wire.Failed(
    why="the parser broke down on it, so it is damaged or made to do harm; "
    "export it again, or as plain text, and upload that."
)


class DocumentParser:
    """Reads files in a child process, one at a time. Threads may share it; close it after use.

    Args:
        cutting: how `read_file` cuts passages.
    """

    def __init__(
        self, limits: ParsingLimits | None = None, *, cutting: wire.Cutting | None = None
    ) -> None:
        self._limits = limits or ParsingLimits()
        self._cutting = cutting
        self._lock = threading.Lock()
        self._child: _Child | None = None
        self._is_closed = False

    def parse_file(self, name: str, source: bytes | Path) -> ParsedDocument:
        """The text and structure of a file; see `retrieval.parsing.parse`.

        Waits while other threads' files are read; the time limit starts after that.

        Raises:
            UnreadableDocumentError: the bytes can't become text, or the parser broke on them.
            ParsingLimitError: it takes more time, memory or text than is allowed.
            ParserUnavailableError: no process can be started, or the parser is closed.
        """
        data = source.read_bytes() if isinstance(source, Path) else source
        return self._read(name, data, None).document

    def read_file(self, name: str, data: bytes) -> tuple[ParsedDocument, tuple[Passage, ...]]:
        """The text of a file, without its blocks, and its passages; see `retrieval.chunking`.

        Cutting may take as long again as reading.

        Raises:
            UnreadableDocumentError, ParsingLimitError: as `parse_file`.
            ParserUnavailableError: there is no tokenizer to measure passages by, either.
        """
        assert self._cutting is not None, "set when the parser was made"
        parsed = self._read(name, data, self._cutting)
        return parsed.document, parsed.passages

    def _read(self, name: str, data: bytes, cutting: wire.Cutting | None) -> wire.Parsed:
        with self._lock:
            reply = self._reply(name, data, cutting)
        match reply:
            case wire.Parsed():
                return reply
            case wire.NoTokenizer(why=why):
                raise ParserUnavailableError(why)
            case wire.Read():
                raise AssertionError("a reply comes after it")
            case wire.Failed(why=why):
                raise UnreadableDocumentError(name, why)
            case wire.TooMuch(limit=limit, value=value, unit=unit):
                raise ParsingLimitError(name, limit, value, unit)
            case wire.OutOfMemory():
                raise ParsingLimitError(name, "memory", self._limits.max_memory_bytes, "bytes")

    def close(self) -> None:
        """Ends the process, at once; whoever waits for a file gets `ParserUnavailableError`."""
        self._is_closed = True
        child = self._child
        if child is not None:
            child.kill()
        with self._lock:
            self._end_child()

    def _reply(self, name: str, data: bytes, cutting: wire.Cutting | None) -> wire.Reply:
        """What a process says to a file.

        A process that has read other files before gives way to a new one if it dies: what broke
        it may have been an earlier file.
        """
        if len(data) > self._limits.max_memory_bytes // 2:
            return wire.OutOfMemory()
        for _ in range(2):
            child = self._ready_child()
            try:
                return self._asked(child, wire.Job(name, len(data), cutting), data)
            except _ChildDiedError as exc:
                if self._is_closed:
                    raise ParserUnavailableError("it was closed") from exc
                if child.files == 1:
                    break
        return _BROKE

    def _asked(self, child: "_Child", job: wire.Job, data: bytes) -> wire.Reply:
        try:
            reply = child.ask(job, data)
        except TimeoutError:
            self._end_child()
            return wire.TooMuch(limit="time", value=round(self._limits.max_seconds), unit="seconds")
        except _ChildDiedError:
            self._end_child()
            raise
        if isinstance(reply, wire.OutOfMemory) or child.files >= _FILES_PER_PROCESS:
            self._end_child()
        return reply

    def _ready_child(self) -> "_Child":
        if self._child is None and not self._is_closed:
            self._child = _Child(self._limits)
        if self._child is None or self._is_closed:
            raise ParserUnavailableError("it was closed")
        return self._child

    def _end_child(self) -> None:
        child, self._child = self._child, None
        if child is not None:
            child.end()


class _ChildDiedError(Exception):
    """The process ended, or said something that is no reply."""


class _Child:
    """One running process and the socket to it. Not for several threads."""

    def __init__(self, limits: ParsingLimits) -> None:
        """Raises:
        ParserUnavailableError: it doesn't start.
        """
        self.files = 0
        self._max_seconds = limits.max_seconds
        self._socket, theirs = socket.socketpair()
        with theirs:
            try:
                self._process = _started(theirs, limits)
            except OSError as exc:
                self._socket.close()
                raise ParserUnavailableError(str(exc)) from exc
        try:
            msgspec.json.decode(self._received(time.monotonic() + _START_S), type=wire.Ready)
        except (TimeoutError, _ChildDiedError, msgspec.DecodeError) as exc:
            self.end()
            raise ParserUnavailableError(
                f"its process ended with exit status {self._process.returncode}"
            ) from exc

    def ask(self, job: wire.Job, data: bytes) -> wire.Reply:
        """Hands a file over and waits for the reply.

        Raises:
            TimeoutError: longer than the limit.
            _ChildDiedError: there is no reply.
        """
        self.files += 1
        deadline = time.monotonic() + self._max_seconds
        self._send(wire.encoded(job), deadline)
        self._send(data, deadline)
        reply = self._replied(deadline)
        if isinstance(reply, wire.Read):
            reply = self._replied(time.monotonic() + self._max_seconds)
        return reply

    def _replied(self, deadline: float) -> wire.Reply:
        message = self._received(deadline)
        try:
            return msgspec.json.decode(message, type=wire.Reply)
        except msgspec.DecodeError as exc:
            raise _ChildDiedError from exc

    def kill(self) -> None:
        """Ends the process; any thread may call it."""
        self._process.kill()

    def end(self) -> None:
        """Kills the process and waits until it has gone."""
        self.kill()
        self._process.wait()
        self._socket.close()

    def _send(self, data: bytes, deadline: float) -> None:
        self._socket.settimeout(_left(deadline))
        try:
            self._socket.sendall(data)
        except TimeoutError:
            raise
        except OSError as exc:
            raise _ChildDiedError from exc

    def _received(self, deadline: float) -> bytearray:
        try:
            self._socket.settimeout(_left(deadline))
            (size_bytes,) = wire.HEADER.unpack(wire.receive_exactly(self._socket, wire.HEADER.size))
            if size_bytes > wire.MAX_MESSAGE_BYTES:
                raise _ChildDiedError
            self._socket.settimeout(_left(deadline))
            return wire.receive_exactly(self._socket, size_bytes)
        except TimeoutError:
            raise
        except (EOFError, OSError) as exc:
            raise _ChildDiedError from exc


def _started(theirs: socket.socket, limits: ParsingLimits) -> subprocess.Popen[bytes]:
    """The process, with nothing of this one's environment: there may be secrets in it."""
    return subprocess.Popen(
        [
            sys.executable,
            "-P",
            "-m",
            "retrieval.parsing.worker",
            str(theirs.fileno()),
            str(limits.max_memory_bytes),
            str(limits.max_seconds),
        ],
        env={
            "PYTHONPATH": str(_PACKAGE_ROOT),
            "PYTHONUTF8": "1",
            "OPENBLAS_NUM_THREADS": "1",
            "TOKENIZERS_PARALLELISM": "false",
        },
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        pass_fds=[theirs.fileno()],
    )


def _left(deadline: float) -> float:
    """Seconds until the deadline, never 0: that would mean a socket that doesn't wait."""
    return max(0.001, deadline - time.monotonic())
