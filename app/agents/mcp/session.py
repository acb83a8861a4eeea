"""A server: its session is opened when it is first needed, kept, opened again when it dies.

No call is ever sent twice by itself but for one case: the server said that it doesn't know the
session, so it did nothing.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import anyio
import anyio.abc
import mcp_types as types
import structlog
from mcp import MCPError
from pydantic import TypeAdapter, ValidationError

from app.agents.mcp import codes
from app.agents.mcp.connection import Connection, ServerState
from app.agents.mcp.errors import (
    McpAnswerError,
    McpOutcomeUnknownError,
    McpToolsError,
    McpUnavailableError,
)
from app.agents.mcp.listing import ToldTool
from app.agents.mcp.results import shown
from app.agents.tools import ToolResult
from app.settings import McpServerSettings
from app.stack.backoff import RestartPolicy

_MAX_PAGES = 100
_MAX_TOLD = 1_000
_MAX_PROBLEM = 500
# Calls in a row that came to nothing in their time: then it is taken for dead.
_SILENT_CALLS = 3
_AGAIN = RestartPolicy(first_s=0.5, longest_s=30.0, attempts=1_000_000)
_RESULT: TypeAdapter[types.CallToolResult | types.InputRequiredResult] = TypeAdapter(
    types.CallToolResult | types.InputRequiredResult
)


class _SessionGoneError(Exception):
    """The server doesn't know the session, and did nothing."""


class McpSession:
    """A server that is declared in the settings.

    Attributes:
        failures: how often a session couldn't be opened, or ended though nobody wanted it to.

    Args:
        tasks: outlives the session.
        environment: what `env:` names are looked up in.
    """

    def __init__(
        self,
        name: str,
        settings: McpServerSettings,
        *,
        tasks: anyio.abc.TaskGroup,
        environment: Mapping[str, str],
        home: Path,
        log: structlog.typing.WrappedLogger,
    ) -> None:
        self.name = name
        self.settings = settings
        self._tasks = tasks
        self._environment = environment
        self._home = home
        self._current: Connection | None = None
        self.failures = 0
        self._failures = 0
        self._not_before = 0.0
        self._closed = False
        self._listing = anyio.Lock()
        self._log = log

    def close(self) -> None:
        """End it, and open it no more."""
        self._closed = True
        if self._current is not None:
            self._current.close()

    @property
    def state(self) -> ServerState:
        """How it stands."""
        return ServerState.IDLE if self._current is None else self._current.state

    async def listed(self) -> tuple[ToldTool, ...]:
        """What the server says its tools are: the same object until it says that they changed.

        Raises:
            McpUnavailableError: it isn't there.
            McpToolsError: what it says is no list of tools.
        """
        async with self._listing:
            connection = await self._connected()
            if connection.told is not None:
                return connection.told
            changes = connection.changes
            told = await self._list(connection)
            if connection.changes == changes:
                connection.told = told
            return told

    async def call(self, name: str, arguments: dict[str, Any], *, within_s: float) -> ToolResult:
        """Have a tool called, once.

        Raises:
            McpUnavailableError: it wasn't called.
            McpAnswerError: the server answered with an error.
            McpOutcomeUnknownError: nobody knows whether it was called.
        """
        until = anyio.current_time() + within_s
        connection = await self._connected()
        try:
            return await self._call(connection, name, arguments, until)
        except _SessionGoneError:
            connection.end()
        try:
            return await self._call(await self._connected(), name, arguments, until)
        except _SessionGoneError as error:
            raise McpUnavailableError(self.name, "it forgets its sessions at once") from error

    async def _connected(self) -> Connection:
        """The session; opened where there is none."""
        connection = self._current
        if connection is None or connection.over.is_set():
            if self._closed:
                raise McpUnavailableError(self.name, "the gateway is shutting down")
            if anyio.current_time() < self._not_before:
                raise McpUnavailableError(self.name, "it couldn't be opened just now")
            previous, connection = connection, self._new()
            self._current = connection
            self._tasks.start_soon(self._hold, connection, previous)
        with anyio.move_on_after(self.settings.start_s) as waited:
            await connection.ready.wait()
        if waited.cancelled_caught and not connection.ready.is_set():
            connection.fail(f"it wasn't ready in {self.settings.start_s:g} s")
        if connection.problem is not None:
            raise connection.problem
        return connection

    def _new(self) -> Connection:
        return Connection(
            self.name,
            self.settings,
            environment=self._environment,
            home=self._home,
            log=self._log,
        )

    async def _hold(self, connection: Connection, previous: Connection | None) -> None:
        await connection.hold(previous)
        self.failures += connection.broke
        if connection.session is not None:
            self._failures = 0
            return
        delay_s = _AGAIN.delay_s(self._failures)
        assert delay_s is not None
        self._failures += 1
        self._not_before = anyio.current_time() + delay_s

    async def _list(self, connection: Connection) -> tuple[ToldTool, ...]:
        assert connection.session is not None
        told: list[ToldTool] = []
        cursor: str | None = None
        try:
            with anyio.fail_after(self.settings.start_s):
                for _ in range(_MAX_PAGES):
                    page = await connection.session.list_tools(
                        params=types.PaginatedRequestParams(cursor=cursor)
                    )
                    told += [_told(tool) for tool in page.tools]
                    cursor = page.next_cursor
                    if cursor is None:
                        return tuple(told)
                    if len(told) > _MAX_TOLD:
                        break
        except TimeoutError as error:
            connection.end()
            raise McpUnavailableError(self.name, "it doesn't say which tools it has") from error
        except MCPError as error:
            if error.code == codes.SESSION_GONE:
                connection.end()
            raise McpUnavailableError(
                self.name, f"it doesn't say which tools it has: {error.message[:_MAX_PROBLEM]}"
            ) from error
        except ValidationError as error:
            raise McpToolsError(self.name, "what it sends is no list of tools") from error
        raise McpToolsError(self.name, f"the list doesn't end after {len(told)} tools")

    async def _call(
        self, connection: Connection, name: str, arguments: dict[str, Any], until: float
    ) -> ToolResult:
        assert connection.session is not None
        request = types.CallToolRequest(
            params=types.CallToolRequestParams(name=name, arguments=arguments)
        )
        try:
            with anyio.fail_after(max(0.0, until - anyio.current_time())):
                # Not `call_tool`: that runs the server's own output schema over the result, with
                # whatever patterns it has, and lists the tools anew.
                result = await connection.session.send_request(request, _RESULT)
        except TimeoutError as error:
            connection.silent += 1
            if connection.silent >= _SILENT_CALLS:
                connection.end()
            raise McpOutcomeUnknownError(self.name, "not in time") from error
        except MCPError as error:
            raise self._answered(connection, error) from error
        except ValidationError as error:
            raise McpAnswerError(self.name, "something that is no result of a call") from error
        connection.silent = 0
        if isinstance(result, types.InputRequiredResult):
            raise McpAnswerError(self.name, "that it needs input of a person, which nobody gives")
        return shown(result, max_bytes=self.settings.max_result_bytes)

    def _answered(self, connection: Connection, error: MCPError) -> Exception:
        """What an error means for a call."""
        problem = error.message[:_MAX_PROBLEM]
        match error.code:
            case codes.SESSION_GONE:
                return _SessionGoneError()
            case codes.NOT_SENT | codes.REFUSED:
                return McpUnavailableError(self.name, problem)
            case codes.LOST | types.CONNECTION_CLOSED | types.REQUEST_TIMEOUT:
                return McpOutcomeUnknownError(self.name, problem)
        connection.silent = 0
        if error.code in (codes.TOO_LARGE, codes.UNREADABLE):
            return McpAnswerError(self.name, problem)
        return McpAnswerError(self.name, f"error {error.code}: {problem}")


def _told(tool: types.Tool) -> ToldTool:
    hints = tool.annotations
    return ToldTool(
        name=tool.name,
        description=tool.description,
        schema=tool.input_schema,
        idempotent_hint=hints is not None and hints.idempotent_hint is True,
        read_only_hint=hints is not None and hints.read_only_hint is True,
    )
