"""Tools that agents can't be shown together, as far as their files tell. Pure.

All agents that call each other show the model one list, in which a name is one tool's; a run in
which it would be two is refused (`app.agents.toolbox`).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from prompts.agent import Agent, BuiltInTool, McpTools, ToolEntry


@dataclass(frozen=True, slots=True, kw_only=True)
class Clash:
    """Two tools of one name that aren't the same."""

    name: str
    why: str
    agent: Agent
    entry: ToolEntry
    other: Agent
    other_entry: ToolEntry


def clashes(family: Sequence[Agent]) -> Iterator[Clash]:
    """Those of agents that call each other; each tool with the first of its name."""
    first: dict[str, tuple[Agent, ToolEntry]] = {}
    for agent in family:
        for entry in agent.tools:
            if isinstance(entry, McpTools):
                continue
            name = entry.name if isinstance(entry, BuiltInTool) else entry.agent
            other, known = first.setdefault(name, (agent, entry))
            why = _difference(known, entry)
            if why is not None:
                yield Clash(
                    name=name, why=why, agent=agent, entry=entry, other=other, other_entry=known
                )
    yield from _mcp_clashes(family)


def _difference(one: ToolEntry, other: ToolEntry) -> str | None:
    if type(one) is not type(other):
        return "one is an agent and the other is built in, so rename the agent"
    if _choices(one) != _choices(other):
        return "give both the same `collections` in the same order"
    return None


def _choices(tool: ToolEntry) -> tuple[str, ...]:
    """The collections that a model is told of: of a single one it isn't."""
    if isinstance(tool, BuiltInTool) and len(tool.collections) > 1:
        return tool.collections
    return ()


def _mcp_clashes(family: Sequence[Agent]) -> Iterator[Clash]:
    """A server's tools that are idempotent for one agent, and not for another that has them."""
    said: dict[tuple[str, str], tuple[Agent, McpTools]] = {}
    for agent, entry in _servers(family):
        for name in entry.idempotent:
            said.setdefault((entry.server, name), (agent, entry))
    for agent, entry in _servers(family):
        for (server, name), (other, known) in said.items():
            has = entry.server == server and (entry.only is None or name in entry.only)
            # What a server is believed of itself, only its pin tells.
            if has and name not in entry.idempotent and not entry.trust_hints:
                yield Clash(
                    name=f"{server}: {name}",
                    why="say that it is `idempotent` in both, or in neither",
                    agent=agent,
                    entry=entry,
                    other=other,
                    other_entry=known,
                )


def _servers(family: Sequence[Agent]) -> Iterator[tuple[Agent, McpTools]]:
    for agent in family:
        for entry in agent.tools:
            if isinstance(entry, McpTools):
                yield agent, entry
