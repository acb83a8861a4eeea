"""The tools of an agent, put together for one run.

All agents that call each other show the model the same list: so a sub-agent's prompt begins as its
parent's does. Each may call only those that its own file names.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Protocol

from app.agents.errors import AgentToolsError
from app.agents.tools import Tool, ToolContext, ToolResult, ToolSource, ToolSpec
from prompts.agent import Agent, AgentTool, BuiltInTool, McpTools
from prompts.canonical import JSON


class OpensTools(Protocol):
    """Whoever has the tools of a server that an agent names."""

    def open(self, entry: McpTools, agent: Agent) -> ToolSource:
        """Its tools for one run, not asked for yet.

        Raises:
            GatewayError: the server isn't declared, or its tools aren't pinned.
        """
        ...


class NoServers:
    """Where no servers are declared."""

    def open(self, entry: McpTools, agent: Agent) -> ToolSource:
        """Refuses."""
        problem = f"there is no MCP server {entry.server!r}; declare it under [mcp.servers]"
        raise AgentToolsError(agent.name, f"{problem} in foreword.toml")


@dataclass(frozen=True, slots=True, kw_only=True)
class Toolbox:
    """What the model is shown, and what each agent may call of it.

    Attributes:
        specs: by name in order; all agents' of the family.
        own: name of an agent → the tools of its file.
    """

    specs: tuple[ToolSpec, ...]
    own: Mapping[str, Mapping[str, Tool]]

    def idempotent(self, agent: str) -> dict[str, bool]:
        """Of an agent's tools."""
        return {name: tool.spec.idempotent for name, tool in self.own[agent].items()}


async def open_toolbox(
    family: Sequence[Agent],
    stack: AsyncExitStack,
    *,
    builtin: Callable[[BuiltInTool], Tool],
    servers: OpensTools,
) -> Toolbox:
    """The tools of a family of agents; `stack` lets go of servers.

    Raises:
        GatewayError: a server's tools can't be had.
        AgentToolsError: two different tools have one name.
    """
    by_name = {agent.name: agent for agent in family}
    own: dict[str, dict[str, Tool]] = {}
    for agent in family:
        tools: dict[str, Tool] = {}
        for entry in agent.tools:
            for tool in await _tools_of(entry, agent, by_name, stack, builtin, servers):
                if tool.spec.name in tools:
                    raise AgentToolsError(agent.name, f"two tools are called {tool.spec.name!r}")
                tools[tool.spec.name] = tool
        own[agent.name] = tools
    return Toolbox(specs=_merged(own), own=own)


async def _tools_of(
    entry: BuiltInTool | McpTools | AgentTool,
    agent: Agent,
    family: Mapping[str, Agent],
    stack: AsyncExitStack,
    builtin: Callable[[BuiltInTool], Tool],
    servers: OpensTools,
) -> Iterable[Tool]:
    match entry:
        case BuiltInTool():
            return [builtin(entry)]
        case AgentTool():
            return [SubAgent(family[entry.agent])]
        case McpTools():
            source = servers.open(entry, agent)
            stack.push_async_callback(source.close)
            return await source.tools()


class SubAgent:
    """Another agent. The run calls it itself, since it goes on from the run's transcript."""

    def __init__(self, agent: Agent) -> None:
        self.agent = agent
        task: JSON = {"type": "string", "description": "what it is to do, in full"}
        self.spec = ToolSpec(
            name=agent.name,
            description=agent.description or f"Hands a task to the agent {agent.name}.",
            parameters={
                "type": "object",
                "properties": {"task": task},
                "required": ["task"],
                "additionalProperties": False,
            },
            # Its run is written down, and goes on where it was.
            idempotent=True,
        )

    async def call(self, arguments: str, run: ToolContext) -> ToolResult:
        """Never: see `app.agents.run`."""
        raise NotImplementedError(f"{run.run_id}: a sub-agent is run, not called")


def _merged(own: Mapping[str, Mapping[str, Tool]]) -> tuple[ToolSpec, ...]:
    specs: dict[str, ToolSpec] = {}
    for agent, tool in _each(own):
        known = specs.setdefault(tool.spec.name, tool.spec)
        if known != tool.spec:
            raise AgentToolsError(
                agent,
                f"its tool {tool.spec.name!r} is another one than that of an agent which it works "
                "with; all are shown one list, so give both the same options",
            )
    return tuple(specs[name] for name in sorted(specs))


def _each(own: Mapping[str, Mapping[str, Tool]]) -> Iterator[tuple[str, Tool]]:
    for agent, tools in own.items():
        for tool in tools.values():
            yield agent, tool
