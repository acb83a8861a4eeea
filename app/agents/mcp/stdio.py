"""A server that is a program of this machine: JSON-RPC in lines over its stdin and stdout.

The child is held by a leash (`app/stack/leash.py`), so that it ends with the gateway however that
ends, and all that it started ends with it. It gets no variable of the gateway's environment but
those that the settings name. What it sends is bounded, since it is read on the event loop that
serves requests: a line's length, and how much is taken in a second.
"""

import os
import re
import shutil
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import anyio
import structlog
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.shared.message import SessionMessage
from mcp_types import ErrorData, JSONRPCError, jsonrpc_message_adapter

from app.agents.mcp.codes import TOO_LARGE, UNREADABLE
from app.agents.mcp.errors import McpUnavailableError
from app.agents.mcp.lines import Line, LineReader
from app.stack.process import CommandNotRunError, LeashedProcess, ProcessSpec

_GRACE_S = 2.0
_GONE_S = 15.0
_CHUNK = 65_536
_TAIL = 2_000
# Taken in a second; whoever sends more waits.
_MESSAGES_A_SECOND = 1_000
_BYTES_A_SECOND = 2**25
# Where a message's own id stands: a result in between may have ids in it, too.
_ID_FIRST = re.compile(rb'\s*\{\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?"id"\s*:\s*(\d{1,15})\b')
_ID_LAST = re.compile(rb'"id"\s*:\s*(\d{1,15})\s*(?:,\s*"jsonrpc"\s*:\s*"2\.0"\s*)?\}\s*\Z')

Received = MemoryObjectSendStream[SessionMessage | Exception]
Streams = tuple[
    MemoryObjectReceiveStream[SessionMessage | Exception], MemoryObjectSendStream[SessionMessage]
]


class StdioServer:
    """One run of a program.

    Args:
        on_end: called when it says nothing more.

    Attributes:
        said: the end of what it wrote to stderr.
        status: its exit status, once it has ended; 128 + n for signal n.
    """

    def __init__(
        self,
        name: str,
        argv: tuple[str, ...],
        *,
        env: Mapping[str, str],
        cwd: Path,
        max_bytes: int,
        on_end: Callable[[], None],
    ) -> None:
        self._name = name
        self._argv = argv
        self._env = dict(env)
        self._cwd = cwd
        self._max_bytes = max_bytes
        self._on_end = on_end
        self.said = ""
        self.status: int | None = None

    @asynccontextmanager
    async def connect(self) -> AsyncIterator[Streams]:
        """Runs it for as long as the context is open.

        Raises:
            McpUnavailableError: it can't be run.
        """
        async with AsyncExitStack() as stack:
            pipes = _Pipes()
            stack.callback(pipes.close)
            with anyio.CancelScope(shield=True):  # a child that was started is always ended
                process = await anyio.to_thread.run_sync(self._start, pipes)
                stack.push_async_callback(self._end, process, pipes)
            tasks = await stack.enter_async_context(anyio.create_task_group())
            stack.callback(tasks.cancel_scope.cancel)
            heard, receive = anyio.create_memory_object_stream[SessionMessage | Exception](0)
            send, to_write = anyio.create_memory_object_stream[SessionMessage](0)
            tasks.start_soon(self._listen, pipes.stderr)
            tasks.start_soon(self._read, pipes.stdout, heard)
            tasks.start_soon(self._write, pipes, to_write, heard)
            with heard, receive, send, to_write:
                yield receive, send

    def _start(self, pipes: "_Pipes") -> LeashedProcess:
        program = shutil.which(self._argv[0], path=self._env.get("PATH", os.defpath))
        if program is None:
            raise McpUnavailableError(
                self._name,
                f"there is no program {self._argv[0]!r}; name it with its path, or give it a PATH",
            )
        spec = ProcessSpec(
            argv=(program, *self._argv[1:]),
            env=self._env,
            cwd=self._cwd,
            stop_grace_s=_GRACE_S,
            stdin=pipes.theirs[0],
            stdout=pipes.theirs[1],
        )
        try:
            return LeashedProcess.start(spec, output=pipes.theirs[2])
        except (CommandNotRunError, OSError) as error:
            raise McpUnavailableError(self._name, f"it can't be run: {error}") from error
        finally:
            pipes.close_theirs()

    async def _end(self, process: LeashedProcess, pipes: "_Pipes") -> None:
        """The end of its stdin asks it to end; then the leash asks, and then it is killed.

        Source: https://modelcontextprotocol.io/specification/2025-11-25/basic/lifecycle#shutdown
        """
        with anyio.CancelScope(shield=True):
            pipes.close_stdin()
            if not await self._gone(process, _GRACE_S):
                process.terminate()
                if not await self._gone(process, _GONE_S):
                    structlog.get_logger().error("mcp_server_stays", server=self._name)

    async def _gone(self, process: LeashedProcess, within_s: float) -> bool:
        self.status = await anyio.to_thread.run_sync(process.wait, within_s)
        return self.status is not None

    async def _listen(self, descriptor: int) -> None:
        """Reads what it says, so that it never waits for a reader, and keeps the end."""
        said = b""
        while chunk := await _receive(descriptor):
            said = (said + chunk)[-_TAIL:]
            self.said = said.decode(errors="replace")

    async def _read(self, descriptor: int, heard: Received) -> None:
        reader = LineReader(self._max_bytes)
        began, messages, size = time.monotonic(), 0, 0
        with heard:
            while chunk := await _receive(descriptor):
                size += len(chunk)
                for line in reader.feed(chunk):
                    messages += 1
                    message = _message(line)
                    if message is not None:
                        await heard.send(message)
                if time.monotonic() - began >= 1:
                    began, messages, size = time.monotonic(), 0, 0
                elif messages > _MESSAGES_A_SECOND or size > _BYTES_A_SECOND:
                    await anyio.sleep(began + 1 - time.monotonic())
        self._on_end()

    async def _write(
        self,
        pipes: "_Pipes",
        to_write: MemoryObjectReceiveStream[SessionMessage],
        heard: Received,
    ) -> None:
        try:
            async for item in to_write:
                text = item.message.model_dump_json(by_alias=True, exclude_unset=True)
                await _send(pipes.stdin, text.encode() + b"\n")
        except BrokenPipeError:
            heard.close()  # nobody reads: whoever waits for an answer is told
            self._on_end()


class _Pipes:
    """Three pipes to a child; `theirs` are its stdin, stdout and stderr."""

    def __init__(self) -> None:
        child_in, child_out, child_err = os.pipe(), os.pipe(), os.pipe()
        self.theirs = (child_in[0], child_out[1], child_err[1])
        self.stdin, self.stdout, self.stderr = child_in[1], child_out[0], child_err[0]
        self._open = {*self.theirs, self.stdin, self.stdout, self.stderr}
        for descriptor in (self.stdin, self.stdout, self.stderr):
            os.set_blocking(descriptor, False)

    def close_theirs(self) -> None:
        self._close(*self.theirs)

    def close_stdin(self) -> None:
        self._close(self.stdin)

    def close(self) -> None:
        self._close(*self._open)

    def _close(self, *descriptors: int) -> None:
        for descriptor in descriptors:
            if descriptor in self._open:
                self._open.discard(descriptor)
                os.close(descriptor)


def _message(line: Line) -> SessionMessage | None:
    """A line's message; an answer that isn't taken is told to whoever waits for it."""
    if line.text is not None:
        try:
            return SessionMessage(jsonrpc_message_adapter.validate_json(line.text, by_name=False))
        except ValueError:
            code, problem = UNREADABLE, "something that is no JSON-RPC message"
    else:
        code, problem = TOO_LARGE, f"{line.size:,} bytes, more than are taken"
    found = _ID_FIRST.match(line.head) or _ID_LAST.search(line.tail)
    if found is None:
        return None  # a program that prints to its stdout, most likely
    error = ErrorData(code=code, message=problem)
    return SessionMessage(JSONRPCError(jsonrpc="2.0", id=int(found[1]), error=error))


async def _receive(descriptor: int) -> bytes:
    """Some bytes, or none at the end."""
    while True:
        try:
            return os.read(descriptor, _CHUNK)
        except BlockingIOError:
            await anyio.wait_readable(descriptor)


async def _send(descriptor: int, data: bytes) -> None:
    left = memoryview(data)
    while left:
        try:
            left = left[os.write(descriptor, left) :]
        except BlockingIOError:
            await anyio.wait_writable(descriptor)
