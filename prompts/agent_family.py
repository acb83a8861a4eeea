"""Whether agents fit together: one name each, sub-agents that are there, no circle, one template.

The gateway refuses to start with the first misfit, and `foreword lint` tells all of them.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from prompts.agent import Agent, AgentTool


class MisfitKind(StrEnum):
    """What is wrong between agents."""

    NAME_TAKEN = "name taken"
    NOT_FOUND = "not found"
    CIRCLE = "circle"
    OTHER_TEMPLATE = "other template"


@dataclass(frozen=True, slots=True, kw_only=True)
class Spot:
    """A place where it can be mended, and what is to be said there."""

    path: Path
    line: int
    column: int
    problem: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Misfit:
    """One fault; the first of its `spots` is where the gateway tells it."""

    kind: MisfitKind
    spots: tuple[Spot, ...]


def misfits(agents: Iterable[Agent], *, also: Collection[str] = ()) -> Iterator[Misfit]:
    """What keeps agents from being one library, in a fixed order.

    Args:
        agents: of two with one name, the first has it.
        also: names of agents that are there, and of which no more is known.
    """
    agents = list(agents)
    by_name: dict[str, Agent] = {}
    for agent in agents:
        other = by_name.setdefault(agent.name, agent)
        if other is not agent:
            yield Misfit(
                kind=MisfitKind.NAME_TAKEN, spots=(_taken(agent, other), _taken(other, agent))
            )
    for name in sorted(by_name):
        for tool in by_name[name].sub_agents:
            yield from _edge(by_name[name], tool, by_name, also)
    for circle in _circles(by_name):
        yield Misfit(kind=MisfitKind.CIRCLE, spots=_circle_spots(circle))


def family_of(agent: Agent, by_name: Mapping[str, Agent]) -> tuple[Agent, ...]:
    """An agent and all that it may call, and those may, each once and by name."""
    found: dict[str, Agent] = {}
    pending = [agent]
    while pending:
        one = pending.pop()
        if one.name not in found:
            found[one.name] = one
            pending += [by_name[tool.agent] for tool in one.sub_agents if tool.agent in by_name]
    return tuple(found[name] for name in sorted(found))


def _taken(agent: Agent, other: Agent) -> Spot:
    problem = (
        f"the agent {agent.name!r} is already defined by {other.path}; a name is one agent's, "
        "whatever its version: rename one, or take one away"
    )
    return _spot(agent, agent.place("name"), problem)


def _edge(
    agent: Agent, tool: AgentTool, by_name: Mapping[str, Agent], also: Collection[str]
) -> Iterator[Misfit]:
    other = by_name.get(tool.agent)
    at = (tool.line, tool.column)
    if other is None:
        if tool.agent not in also:
            known = ", ".join(sorted({*by_name, *also}))
            problem = f"there is no agent {tool.agent!r}; there are: {known}"
            yield Misfit(kind=MisfitKind.NOT_FOUND, spots=(_spot(agent, at, problem),))
    elif other.template != agent.template:
        here = (
            f"{other.name!r} has the template {other.template}, and this one {agent.template}: "
            "with another one it can't go on from this one's prompt"
        )
        there = (
            f"{agent.name!r} has this agent as a tool and the template {agent.template}, and this "
            f"one {other.template}: with another one it can't go on from that one's prompt"
        )
        spots = (_spot(agent, at, here), _spot(other, other.place("template"), there))
        yield Misfit(kind=MisfitKind.OTHER_TEMPLATE, spots=spots)


def _circles(by_name: Mapping[str, Agent]) -> Iterator[list[tuple[Agent, AgentTool]]]:
    """Tools that lead back to where they began: the last of each closes the circle."""
    done: set[str] = set()
    for first in sorted(by_name):
        if first in done:
            continue
        # By hand: a chain of agents may be longer than Python's stack.
        line: list[tuple[Agent, AgentTool]] = []
        above = [first]
        pending = [iter(by_name[first].sub_agents)]
        while pending:
            agent = by_name[above[-1]]
            tool = next(pending[-1], None)
            if tool is None:
                done.add(above.pop())
                pending.pop()
                if line:
                    line.pop()
            elif tool.agent in above:
                yield [*line[above.index(tool.agent) :], (agent, tool)]
            elif tool.agent in by_name and tool.agent not in done:
                line.append((agent, tool))
                above.append(tool.agent)
                pending.append(iter(by_name[tool.agent].sub_agents))


def _circle_spots(circle: list[tuple[Agent, AgentTool]]) -> tuple[Spot, ...]:
    """Each of its tools, the closing one first: to take any of them out mends it."""
    spots: list[Spot] = []
    for place in range(len(circle) - 1, -1, -1):
        agent, tool = circle[place]
        following = [*circle[place + 1 :], *circle[:place]]
        way = " → ".join([tool.agent, *(after.agent for _, after in following)])
        problem = f"{tool.agent!r} has this agent as a tool in its turn ({way}): take one out"
        spots.append(_spot(agent, (tool.line, tool.column), problem))
    return tuple(spots)


def _spot(agent: Agent, place: tuple[int, int], problem: str) -> Spot:
    line, column = place
    return Spot(path=agent.path, line=line, column=column, problem=problem)
