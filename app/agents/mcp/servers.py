"""All MCP servers that the settings declare, for as long as the gateway lives."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
import structlog

from app.agents.mcp.errors import McpUnknownServerError
from app.agents.mcp.listing import Listing
from app.agents.mcp.pins import read_pins
from app.agents.mcp.secrets import read_values
from app.agents.mcp.source import McpSource, pinned_for
from app.errors import InvalidSettingError, WebhookRefusedError
from app.settings import McpSettings
from app.webhooks.addresses import check_url
from prompts.agent import Agent, McpTools

if TYPE_CHECKING:
    from app.agents.mcp.connection import ServerState
    from app.agents.mcp.session import McpSession


@dataclass(frozen=True, slots=True, kw_only=True)
class _Read:
    """A file of pins as it was read."""

    stamp: tuple[int, int, int]
    pins: Mapping[str, Listing]


class McpServers:
    """The servers by name. None is started before it is needed."""

    def __init__(self, sessions: "Mapping[str, McpSession]") -> None:
        self._sessions = sessions
        self._pins: dict[Path, _Read] = {}

    def open(self, entry: McpTools, agent: Agent) -> McpSource:
        """A server's tools for an agent, as they are pinned.

        Raises:
            McpUnknownServerError: the settings declare no such server.
            McpPinError: it isn't pinned for the agent.
        """
        session = self.session(entry.server)
        return McpSource(session, agent.name, entry, pinned_for(entry, agent.name, self._of(agent)))

    def _of(self, agent: Agent) -> Mapping[str, Listing]:
        """An agent's pins, read again when the file is another one."""
        try:
            facts = agent.pin.stat()
        except OSError:
            return read_pins(agent.pin, agent.name)
        stamp = (facts.st_ino, facts.st_size, facts.st_mtime_ns)
        known = self._pins.get(agent.pin)
        if known is None or known.stamp != stamp:
            known = _Read(stamp=stamp, pins=read_pins(agent.pin, agent.name))
            self._pins[agent.pin] = known
        return known.pins

    def states(self) -> Mapping[str, "ServerState"]:
        """How each server stands."""
        return {name: session.state for name, session in self._sessions.items()}

    def failures(self) -> Mapping[str, int]:
        """How often each couldn't be opened, or broke off, since the start."""
        return {name: session.failures for name, session in self._sessions.items()}

    def session(self, server: str) -> "McpSession":
        """Raises McpUnknownServerError."""
        if server not in self._sessions:
            raise McpUnknownServerError(server, self._sessions)
        return self._sessions[server]


@asynccontextmanager
async def open_servers(
    settings: McpSettings,
    *,
    home: Path,
    environment: Mapping[str, str],
    log: structlog.typing.WrappedLogger | None = None,
) -> AsyncIterator[McpServers]:
    """The servers; when the context is left, their programs are ended.

    Args:
        home: where programs run that are given no folder.
        environment: where `env:` values are.

    Raises:
        InvalidSettingError: a URL may not be asked, or a value isn't there.
    """
    if not settings.servers:
        yield McpServers({})
        return
    _check(settings, environment)
    # Here: it imports the SDK, which takes a second.
    from app.agents.mcp.session import McpSession

    tasks = anyio.create_task_group()
    await tasks.__aenter__()
    sessions = {
        name: McpSession(
            name,
            given,
            tasks=tasks,
            environment=environment,
            home=home,
            log=log or structlog.get_logger(),
        )
        for name, given in settings.servers.items()
    }
    try:
        yield McpServers(sessions)
    finally:
        for session in sessions.values():
            session.close()
        # By hand: what is raised in the context comes out of it as it is, in no group.
        await tasks.__aexit__(None, None, None)


def _check(settings: McpSettings, environment: Mapping[str, str]) -> None:
    for name, given in settings.servers.items():
        setting = f"mcp.servers.{name}"
        if given.url is not None:
            try:
                check_url(given.url, allow_private=given.allow_private)
            except WebhookRefusedError as error:
                raise InvalidSettingError(f"{setting}.url", error.problem) from error
        read_values(given.env_from, environment, setting=f"{setting}.env_from")
        read_values(given.headers_from, environment, setting=f"{setting}.headers_from")
