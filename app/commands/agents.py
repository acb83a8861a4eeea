"""`foreword agents`: the agents of this deployment, and the pins of their MCP servers' tools.

Both read the settings and files themselves, as `foreword lock` does; no gateway has to run.
"""

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import anyio
import click
import structlog

from app.agents.mcp.errors import McpPinError, McpUnavailableError
from app.agents.mcp.listing import Listing, called, check_listing, differences
from app.agents.mcp.pins import read_pins, write_pins
from app.agents.mcp.servers import McpServers, open_servers
from app.agents.mcp.source import given_of, missing_in, told_of
from app.commands.tokenizer import CommandInputError
from app.errors import GatewayError
from app.settings import Settings
from app.starting import read_settings
from prompts.agent import Agent, AgentTool, BuiltInTool, McpTools, ToolEntry
from prompts.agent_library import AgentLibrary, load_agents, shipped_agents
from prompts.canonical import canonical_json
from prompts.errors import PromptError

_FORMAT = click.option("--format", "output", type=click.Choice(["text", "json"]), default="text")
_FOLDER = click.option(
    "--folder",
    type=click.Path(path_type=Path, file_okay=False, exists=True),
    help="folder of agent files, beside those of Foreword  [default: FOREWORD_AGENTS__FOLDER]",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Found:
    """A server's tools for an agent, and the pin that there was."""

    server: str
    listing: Listing
    pinned: Listing | None

    @property
    def changes(self) -> list[str]:
        before = Listing(()) if self.pinned is None else self.pinned
        return differences(before, self.listing)


@click.group()
def agents() -> None:
    """See agents, and pin the tools of the MCP servers that they use."""


@agents.command("list")
@_FOLDER
@_FORMAT
def list_command(folder: Path | None, output: str) -> None:
    """Show all agents, their tools, and which MCP servers are pinned. Nothing is started."""
    library = _library(folder)
    if output == "json":
        facts = [_facts(agent) for agent in library]
        click.echo(json.dumps({"schema_version": 1, "data": facts}, ensure_ascii=False))
        return
    for agent in library:
        click.echo(f"{agent.reference}  {agent.description}".rstrip())
        pins = _pins(agent)
        for entry in agent.tools:
            click.echo(f"  {_tool_line(entry, pins)}")


@agents.command()
@click.argument("name")
@click.option("--check", is_flag=True, help="write nothing; exit 1 if the pin isn't current")
@_FOLDER
def pin(name: str, check: bool, folder: Path | None) -> None:
    """Ask the MCP servers of the agent NAME for their tools, show them, and pin them.

    An agent's prompt has the pinned tools in it, byte for byte, and a server whose tools differ
    isn't used until somebody pins the new ones. So read what is shown: a description is a text that
    the model follows.
    """
    try:
        agent = _library(folder).find(name)
        settings = read_settings()
    except (GatewayError, PromptError) as error:
        raise CommandInputError(str(error)) from error
    entries = _entries(agent)
    if not entries:
        raise CommandInputError(f"the agent {name!r} uses no MCP server: nothing is to be pinned")
    found = _ask(settings, agent, entries)
    for each in found:
        _show(each)
    pins = {each.server: each.listing for each in found}
    current = not any(each.changes for each in found) and pins.keys() == _pins(agent).keys()
    if check:
        raise SystemExit(0 if current else 1)
    if current:
        click.echo(f"{agent.pin} is current", err=True)
        return
    try:
        write_pins(agent.pin, pins)
    except OSError as error:
        raise CommandInputError(f"{agent.pin} can't be written: {error.strerror}") from error
    click.echo(f"wrote {agent.pin}", err=True)


def _ask(settings: Settings, agent: Agent, entries: list[McpTools]) -> list[_Found]:
    async def ask() -> list[_Found]:
        home = settings.home if settings.home.is_dir() else Path.cwd()
        # What is to be told is told here.
        silent = structlog.wrap_logger(structlog.ReturnLogger())
        async with open_servers(
            settings.mcp, home=home, environment=os.environ, log=silent
        ) as servers:
            return [await _found(servers, agent, entry) for entry in entries]

    try:
        return anyio.run(ask)
    except McpUnavailableError as error:
        raise CommandInputError(f"{error}\n{_printable(error.said or '')}".strip()) from error
    except GatewayError as error:
        raise CommandInputError(str(error)) from error


async def _found(servers: McpServers, agent: Agent, entry: McpTools) -> _Found:
    told = await servers.session(entry.server).listed()
    listing = check_listing(entry.server, told_of(entry, told))
    missing = missing_in(entry, listing)
    if missing:
        names = ", ".join(sorted(tool.name for tool in told))
        raise CommandInputError(
            f"the MCP server {entry.server!r} has no tool called {', '.join(missing)}, which "
            f"{agent.path} names; it has: {names}"
        )
    return _Found(server=entry.server, listing=listing, pinned=_pins(agent).get(entry.server))


def _library(folder: Path | None) -> AgentLibrary:
    """The agents that ship, and those of this deployment."""
    try:
        own = folder or read_settings().agents.folder
        return load_agents(shipped_agents(), *([own] if own else []))
    except (GatewayError, PromptError) as error:
        raise CommandInputError(str(error)) from error


def _pins(agent: Agent) -> Mapping[str, Listing]:
    try:
        return read_pins(agent.pin, agent.name)
    except McpPinError:
        return {}  # as good as none: it is written anew


def _entries(agent: Agent) -> list[McpTools]:
    return [entry for entry in agent.tools if isinstance(entry, McpTools)]


def _show(found: _Found) -> None:
    """What is to be pinned, and what about it is new."""
    click.echo(f"{found.server}: {len(found.listing.tools)} tools, sha256 {found.listing.sha256}")
    for change in found.changes if found.pinned is not None else ():
        click.echo(f"  ! {change}")
    for tool in found.listing.tools:
        click.echo(f"  {called(found.server, tool.name)}: {tool.description}")
        click.echo(f"    {canonical_json(dict(tool.parameters))}")


def _printable(text: str) -> str:
    """What a program said, without what a terminal would obey."""
    return "".join(c if c.isprintable() or c == "\n" else "\N{REPLACEMENT CHARACTER}" for c in text)


def _facts(agent: Agent) -> dict[str, object]:
    pins = _pins(agent)
    return {
        "name": agent.name,
        "version": agent.version,
        "description": agent.description,
        "path": str(agent.path),
        "tools": [_tool_facts(entry, pins) for entry in agent.tools],
    }


def _tool_facts(entry: ToolEntry, pins: Mapping[str, Listing]) -> dict[str, object]:
    match entry:
        case BuiltInTool():
            return {"built_in": entry.name}
        case AgentTool():
            return {"agent": entry.agent}
    pinned = pins.get(entry.server)
    if pinned is None:
        return {"mcp": entry.server, "pinned": None}
    given = given_of(entry, pinned)
    names = [called(entry.server, tool.name) for tool in given.tools]
    return {"mcp": entry.server, "pinned": {"sha256": pinned.sha256, "tools": names}}


def _tool_line(entry: ToolEntry, pins: Mapping[str, Listing]) -> str:
    match entry:
        case BuiltInTool():
            return entry.name
        case AgentTool():
            return f"agent {entry.agent}"
    pinned = pins.get(entry.server)
    if pinned is None:
        return f"mcp {entry.server}: not pinned"
    names = ", ".join(tool.name for tool in given_of(entry, pinned).tools)
    return f"mcp {entry.server}: {names} (pinned, {pinned.sha256[:12]})"
