"""A folder of agent files: look-up by name, and what one file says of another."""

from collections.abc import Iterable, Iterator
from pathlib import Path

from prompts.agent import Agent, AgentTool
from prompts.agent_file import parse_agent
from prompts.errors import AgentNotFoundError, DuplicateTemplateError, TemplateSyntaxError


class AgentLibrary:
    """Parsed agents, one for each name."""

    def __init__(self, agents: Iterable[Agent]) -> None:
        """
        Raises:
            DuplicateTemplateError: two files have one name.
            TemplateSyntaxError: a tool is an agent that isn't there, has another template, or has
                the first as a tool in its turn.
        """
        self._by_name: dict[str, Agent] = {}
        for agent in agents:
            other = self._by_name.setdefault(agent.name, agent)
            if other is not agent:
                raise DuplicateTemplateError(agent.path, agent.name, other.path)
        for agent in self:
            self._check(agent, agent, ())

    def __iter__(self) -> Iterator[Agent]:
        return iter(sorted(self._by_name.values(), key=lambda agent: agent.name))

    def find(self, name: str) -> Agent:
        """
        Raises:
            AgentNotFoundError: there is none of that name.
        """
        agent = self._by_name.get(name)
        if agent is None:
            raise AgentNotFoundError(name, sorted(self._by_name))
        return agent

    def family(self, agent: Agent) -> tuple[Agent, ...]:
        """An agent and all that it may call, and those may, each once and by name."""
        found: dict[str, Agent] = {}
        pending = [agent]
        while pending:
            one = pending.pop()
            if one.name not in found:
                found[one.name] = one
                pending += [self._by_name[t.agent] for t in one.tools if isinstance(t, AgentTool)]
        return tuple(found[name] for name in sorted(found))

    def _check(self, first: Agent, agent: Agent, above: tuple[str, ...]) -> None:
        for tool in agent.tools:
            if not isinstance(tool, AgentTool):
                continue
            other = self._by_name.get(tool.agent)
            if other is None:
                known = ", ".join(sorted(self._by_name))
                problem = f"there is no agent {tool.agent!r} in this folder; there are: {known}"
            elif other.name in (*above, agent.name):
                problem = f"{tool.agent!r} has this agent as a tool in its turn: take one out"
            elif other.template != first.template:
                problem = (
                    f"{tool.agent!r} has the template {other.template}, and this one "
                    f"{first.template}: with another one it can't go on from this one's prompt"
                )
            else:
                self._check(first, other, (*above, agent.name))
                continue
            raise TemplateSyntaxError(agent.path, tool.line, 1, problem)


def load_agents(folder: Path) -> AgentLibrary:
    """All `*.yaml` and `*.yml` files of a folder, in the order of their names.

    Raises:
        TemplateError: a file is at fault.
    """
    paths = sorted([*folder.glob("*.yaml"), *folder.glob("*.yml")])
    return AgentLibrary(parse_agent(path, path.read_bytes()) for path in paths)


def shipped_agents() -> Path:
    """The folder of the agents that come with Foreword."""
    return Path(__file__).parent / "agents"
