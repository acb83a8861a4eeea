"""One session with a server, from its first word to its last.

It belongs to a task of its own, since the SDK's contexts must be left where they were entered.
"""

from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path

import anyio
import mcp_types as types
import structlog
from mcp import Client, ClientSession, MCPError
from mcp.client import IncomingMessage, Transport
from mcp.client.subscriptions import ListenNotSupportedError, SubscriptionLost

from app.agents.mcp.errors import McpUnavailableError
from app.agents.mcp.http import connect_http
from app.agents.mcp.listing import ToldTool
from app.agents.mcp.secrets import read_values
from app.agents.mcp.stdio import StdioServer
from app.errors import GatewayError
from app.settings import McpServerSettings
from app.version import VERSION

_LISTEN_AGAIN_S = 5.0
_MAX_PROBLEM = 500
# A stream on which nothing comes for so long is opened again.
_SILENCE_S = 300.0


class ServerState(StrEnum):
    """How a server stands."""

    IDLE = "idle"
    """No session: it wasn't needed yet, or not since the last one ended."""
    OPENING = "opening"
    OPEN = "open"
    DOWN = "down"
    """The last attempt to open a session came to nothing."""


class Connection:
    """How a session stands.

    Attributes:
        ready: it may be used, or it never will.
        over: it ends, or has ended.
        gone: nothing is left of it.
        session: None: it isn't open yet, or couldn't be opened.
        problem: why it couldn't be.
        told: the server's tools; None: not asked, or they have changed since.
        changes: how often it said that they changed.
        silent: calls in a row that weren't answered in time.
        broke: it couldn't be opened, or ended though nobody wanted it to.
    """

    def __init__(
        self,
        name: str,
        settings: McpServerSettings,
        *,
        environment: Mapping[str, str],
        home: Path,
        log: structlog.typing.WrappedLogger,
    ) -> None:
        self._name = name
        self._settings = settings
        self._environment = environment
        self._home = home
        self._log = log
        self._opening = anyio.CancelScope()
        self._wanted = True
        self.ready = anyio.Event()
        self.over = anyio.Event()
        self.gone = anyio.Event()
        self.session: ClientSession | None = None
        self.problem: McpUnavailableError | None = None
        self.told: tuple[ToldTool, ...] | None = None
        self.changes = 0
        self.silent = 0
        self.broke = False

    @property
    def state(self) -> ServerState:
        """How the server stands."""
        if self.problem is not None:
            return ServerState.DOWN
        if self.over.is_set():
            return ServerState.IDLE
        return ServerState.OPENING if self.session is None else ServerState.OPEN

    def end(self) -> None:
        """Have it end; what waits for an answer is told so."""
        self.over.set()
        if not self.ready.is_set():
            self._opening.cancel()

    def close(self) -> None:
        """The same, where that is no news."""
        self._wanted = False
        self.end()

    def fail(self, problem: str) -> None:
        """It couldn't be opened."""
        if self.problem is None:
            self.problem = McpUnavailableError(self._name, problem)
        self.end()

    async def hold(self, previous: "Connection | None") -> None:
        """Open it when the one before is gone, and keep it until it is over."""
        program: StdioServer | None = None
        try:
            with self._opening:
                if previous is not None:
                    await previous.gone.wait()
                program = self._program()
                await self._serve(self._by_url() if program is None else program.connect())
        except Exception as error:  # noqa: BLE001 - the boundary of a background task
            if self.session is None:
                self.fail(_problem(error))
        finally:
            self._ended(program)

    async def _serve(self, transport: Transport) -> None:
        async def heard(message: IncomingMessage) -> None:
            if isinstance(message, types.ToolListChangedNotification):
                self._changed()

        client = Client(
            transport,
            cache=None,
            message_handler=heard,
            client_info=types.Implementation(name="foreword", version=VERSION),
        )
        async with client, anyio.create_task_group() as tasks:
            self.session = client.session
            self.ready.set()
            tasks.start_soon(self._subscribe, client)
            await self.over.wait()
            tasks.cancel_scope.cancel()

    def _program(self) -> StdioServer | None:
        settings = self._settings
        if settings.command is None:
            return None
        return StdioServer(
            self._name,
            (settings.command, *settings.args),
            env=self._values(settings.env_from, "env_from"),
            cwd=settings.cwd or self._home,
            max_bytes=settings.max_message_bytes,
            on_end=self.end,
        )

    def _by_url(self) -> Transport:
        settings = self._settings
        assert settings.url is not None
        return connect_http(
            settings.url,
            headers=self._values(settings.headers_from, "headers_from"),
            allow_private=settings.allow_private,
            max_bytes=settings.max_message_bytes,
            silence_s=max(_SILENCE_S, settings.timeout_s + 10),
        )

    def _values(self, references: Mapping[str, str], key: str) -> dict[str, str]:
        setting = f"mcp.servers.{self._name}.{key}"
        return read_values(references, self._environment, setting=setting)

    def _ended(self, program: StdioServer | None) -> None:
        status = program.status if program is not None else None
        if self.session is None:
            ended = "" if status is None else f" with status {status}"
            self.fail(f"it ended{ended} before it answered")
            assert self.problem is not None
            if program is not None:
                self.problem.said = program.said
        self.over.set()
        self.ready.set()
        self.gone.set()
        self.broke = self._wanted
        if self._wanted:
            self._tell(status)

    def _tell(self, status: int | None) -> None:
        if self.problem is None:
            # Not what it said: somebody's words may be in that.
            self._log.warning("mcp_server_ended", server=self._name, status=status)
            return
        self._log.warning(
            "mcp_server_not_opened",
            server=self._name,
            status=status,
            problem=self.problem.problem,
            said=self.problem.said,
        )

    async def _subscribe(self, client: Client) -> None:
        """Hears of changes where the protocol wants that asked for; older servers just tell."""
        while True:
            try:
                async with client.listen(tools_list_changed=True) as events:
                    async for _ in events:
                        self._changed()
            except (ListenNotSupportedError, MCPError):
                return
            except (SubscriptionLost, TimeoutError):
                pass
            self._forget()  # meanwhile nobody would have told
            await anyio.sleep(_LISTEN_AGAIN_S)

    def _changed(self) -> None:
        if self.told is not None:  # else it is known, and was told
            self._log.info("mcp_tools_list_changed", server=self._name)
        self._forget()

    def _forget(self) -> None:
        self.changes += 1
        self.told = None


def _problem(error: BaseException) -> str:
    """Why it couldn't be opened, in a sentence."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if isinstance(error, McpUnavailableError):
        return error.problem
    if isinstance(error, MCPError):
        return f"it opens no session: {error.message[:_MAX_PROBLEM]}"
    if isinstance(error, GatewayError):
        return str(error)
    return f"it opens no session ({type(error).__name__})"
