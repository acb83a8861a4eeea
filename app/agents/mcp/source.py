"""A server's tools for one agent: from the pin, and only while the server's own are the same."""

import json
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import anyio

from app.agents.mcp.errors import (
    McpError,
    McpOutcomeUnknownError,
    McpPinError,
    McpToolsChangedError,
)
from app.agents.mcp.listing import Listing, RemoteTool, ToldTool, called, check_listing, differences
from app.agents.tools import Tool, ToolContext, ToolResult, ToolSpec
from prompts.agent import McpTools

if TYPE_CHECKING:
    from app.agents.mcp.session import McpSession


class McpSource:
    """A `ToolSource`.

    Args:
        entry: what the agent's file says of the server.
        pinned: the tools that it gives, as they were pinned.
    """

    def __init__(self, session: "McpSession", agent: str, entry: McpTools, pinned: Listing) -> None:
        self.session = session
        self._agent = agent
        self._entry = entry
        self._pinned = pinned
        self._same: tuple[ToldTool, ...] | None = None

    async def tools(self) -> list[Tool]:
        """All of the pin that the agent's file gives, by name.

        Raises:
            McpUnavailableError: the server isn't there.
            McpToolsError: its tools can't be shown to a model.
            McpToolsChangedError: they aren't those of the pin.
        """
        await self.check()
        server = self._entry.server
        made: list[Tool] = [
            McpTool(
                self,
                tool,
                ToolSpec(
                    name=called(server, tool.name),
                    description=tool.description,
                    parameters=tool.parameters,
                    idempotent=_is_idempotent(self._entry, tool),
                ),
            )
            for tool in self._pinned.tools
        ]
        return sorted(made, key=lambda tool: tool.spec.name)

    async def close(self) -> None:
        """The session is everybody's: it stays."""

    async def check(self) -> None:
        """Look at the server's list, where it may have changed since the last look.

        Raises:
            McpError: as `tools`.
        """
        told = await self.session.listed()
        if told is self._same:
            return
        found = check_listing(self._entry.server, told_of(self._entry, told))
        changed = differences(self._pinned, found)
        if changed:
            raise McpToolsChangedError(self._entry.server, self._agent, changed)
        self._same = told


class McpTool:
    """A `Tool`: a call of it is a call of the server's."""

    def __init__(self, source: McpSource, tool: RemoteTool, spec: ToolSpec) -> None:
        self._source = source
        self._name = tool.name
        self._spec = spec

    @property
    def spec(self) -> ToolSpec:
        """From the pin."""
        return self._spec

    async def call(self, arguments: str, run: ToolContext) -> ToolResult:
        """Have the server do it; what goes wrong is a result, for the model to deal with.

        Raises:
            McpOutcomeUnknownError: nobody knows whether it did.
        """
        given = _object(arguments)
        if given is None:
            return ToolResult(text="Not called: the arguments are no JSON object.", is_error=True)
        until = anyio.current_time() + self._source.session.settings.timeout_s
        if run.deadline is not None:
            until = min(until, run.deadline)
        try:
            return await self._call(given, until)
        except McpToolsChangedError as error:
            changed = "; ".join(error.differences)
            return ToolResult(
                text=f"Not called: the server's tools have changed: {changed}.", is_error=True
            )
        except McpOutcomeUnknownError:
            raise
        except McpError as error:
            return ToolResult(text=f"{error}.", is_error=True)

    async def _call(self, given: dict[str, Any], until: float) -> ToolResult:
        with anyio.CancelScope(deadline=until) as opening:
            await self._source.check()
        left_s = until - anyio.current_time()
        if opening.cancelled_caught or left_s <= 0:
            return ToolResult(text="Not called: there was no time left for it.", is_error=True)
        return await self._source.session.call(self._name, given, within_s=left_s)


def pinned_for(entry: McpTools, agent: str, pins: Mapping[str, Listing]) -> Listing:
    """What an agent gets of a server's pinned tools.

    Raises:
        McpPinError: it has no pin, or not the tools that the agent's file names.
    """
    if entry.server not in pins:
        raise McpPinError(entry.server, agent, "there is none")
    listing = given_of(entry, pins[entry.server])
    missing = missing_in(entry, listing)
    if missing:
        raise McpPinError(entry.server, agent, f"no tool is called {', '.join(missing)}")
    return listing


def given_of(entry: McpTools, listing: Listing) -> Listing:
    """What of a list the agent gets."""
    return Listing(tool for tool in listing.tools if _gives(entry, tool.name))


def told_of(entry: McpTools, told: Iterable[ToldTool]) -> list[ToldTool]:
    """The same of what a server tells: nothing that the agent doesn't get has to be fit for it."""
    return [tool for tool in told if _gives(entry, tool.name)]


def missing_in(entry: McpTools, listing: Listing) -> list[str]:
    """Names that the agent's file has and the list hasn't."""
    return sorted({*(entry.only or ()), *entry.idempotent} - listing.names)


def _gives(entry: McpTools, name: str) -> bool:
    return entry.only is None or name in entry.only


def _is_idempotent(entry: McpTools, tool: RemoteTool) -> bool:
    return tool.name in entry.idempotent or (
        entry.trust_hints and (tool.idempotent_hint or tool.read_only_hint)
    )


def _object(text: str) -> dict[str, Any] | None:
    """A JSON object's value; no text at all is one without arguments."""
    try:
        value = json.loads(text or "{}", parse_constant=_no_constant)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _no_constant(word: str) -> float:
    raise ValueError(f"{word} is no JSON number")
