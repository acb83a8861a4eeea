"""A folder of agent files: look-up by name, and what one file says of another."""

from collections.abc import Iterable, Iterator
from pathlib import Path

from prompts.agent import Agent
from prompts.agent_family import family_of, misfits
from prompts.agent_file import parse_agent
from prompts.errors import AgentNotFoundError, TemplateSyntaxError


class AgentLibrary:
    """Parsed agents, one for each name."""

    def __init__(self, agents: Iterable[Agent]) -> None:
        """
        Raises:
            TemplateSyntaxError: two files have one name, or a tool is an agent that isn't there,
                has another template, or has the first as a tool in its turn.
        """
        given = list(agents)
        for misfit in misfits(given):
            spot = misfit.spots[0]
            raise TemplateSyntaxError(spot.path, spot.line, spot.column, spot.problem)
        self._by_name = {agent.name: agent for agent in given}

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
        return family_of(agent, self._by_name)


def load_agents(*folders: Path) -> AgentLibrary:
    """All `*.yaml` and `*.yml` files of folders, those of each in the order of their names.

    Raises:
        TemplateError: a file is at fault.
    """
    paths = [
        path
        for folder in folders
        for path in sorted([*folder.glob("*.yaml"), *folder.glob("*.yml")])
    ]
    return AgentLibrary(parse_agent(path, path.read_bytes()) for path in paths)


def shipped_agents() -> Path:
    """The folder of the agents that come with Foreword."""
    return Path(__file__).parent / "agents"
