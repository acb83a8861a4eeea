"""The agents of one folder, as a gateway has them beside those that ship.

Files that aren't linted are read, too, where they lie beside one that is: a hook names whatever has
changed, and nothing else.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from prompts.agent import Agent
from prompts.agent_family import Misfit, misfits
from prompts.agent_file import parse_agent
from prompts.agent_library import shipped_agents
from prompts.errors import TemplateError
from prompts.lint.findings import Place
from prompts.lint.source_file import SourceFile
from prompts.lint.template_search import SEGMENTS, TemplateSearch, yaml_files
from prompts.template import Template

_NAMED = re.compile(rb"^name[ \t]*:[ \t]*['\"]?([a-z][a-z0-9_-]{0,63})", re.MULTILINE)
_VERSIONED = re.compile(rb"^version[ \t]*:", re.MULTILINE)

Files = list[tuple[SourceFile, Agent | None]]
"""Each file of an agent, and the agent, where the file can be read."""


@dataclass(frozen=True, kw_only=True)
class AgentFolder:
    """The agents that may call each other.

    Attributes:
        agents: those that can be read, in the order in which a gateway reads them.
        unread: names of files that can't be read, which is said elsewhere.
        sources: the files that are linted, by path.
        templates: where the agents' are looked for.
    """

    agents: tuple[Agent, ...]
    unread: frozenset[str]
    sources: Mapping[Path, SourceFile]
    templates: TemplateSearch

    @cached_property
    def misfits(self) -> tuple[Misfit, ...]:
        """What a gateway refuses the folder for."""
        return tuple(misfits(self.agents, also=self.unread))

    @cached_property
    def by_name(self) -> Mapping[str, Agent]:
        """The agents; of two with one name, the first."""
        return {agent.name: agent for agent in reversed(self.agents)}

    @property
    def linted(self) -> Iterator[Agent]:
        """Those whose files are linted."""
        return (agent for agent in self.agents if agent.path in self.sources)

    def place(self, path: Path, line: int, column: int) -> Place:
        """A place in a linted file, to the end of its line."""
        return self.sources[path].character_place(line, column)

    def place_of(self, agent: Agent, field: str) -> Place:
        """Where a linted file says something of a field."""
        return self.place(agent.path, *agent.place(field))


def agent_folders(linted: Files, templates: Iterable[Template]) -> Iterator[AgentFolder]:
    """The folders that linted files of agents are in; `templates` are linted with them."""
    folders: dict[Path, Files] = {}
    for source, agent in linted:
        folders.setdefault(source.path.parent.resolve(), []).append((source, agent))
    given = tuple(templates)
    for folder, files in folders.items():
        yield _folder(folder, files, given)


def _folder(folder: Path, files: Files, templates: tuple[Template, ...]) -> AgentFolder:
    read = {source.path.name: (source, agent) for source, agent in files}
    # As it is shown: the folder that the linted files are named with.
    for source in _agents_in(files[0][0].path.parent):
        if source.path.name not in read:
            read[source.path.name] = (source, _agent(source))
    agents = [agent for _, (_, agent) in sorted(read.items()) if agent is not None]
    unread = {_name(source) for source, agent in read.values() if agent is None}
    return AgentFolder(
        agents=(*_shipped(folder), *agents),
        unread=frozenset(name for name in unread if name is not None),
        sources={source.path: source for source, _ in files},
        templates=TemplateSearch(folder, templates),
    )


def _shipped(folder: Path) -> list[Agent]:
    """Foreword's own agents; none where the folder is theirs, be it of another copy."""
    if folder == shipped_agents().resolve() or (folder.parent / "agent_file.py").is_file():
        return []
    found = (_agent(source) for source in _agents_in(shipped_agents()))
    return [agent for agent in found if agent is not None]


def _agents_in(folder: Path) -> Iterator[SourceFile]:
    """What may be one: a name and a version are enough, to a gateway."""
    for source in yaml_files(folder):
        has_head = _name(source) is not None and _VERSIONED.search(source.data)
        if has_head and not SEGMENTS.search(source.data):
            yield source


def _agent(source: SourceFile) -> Agent | None:
    with suppress(TemplateError):
        return parse_agent(source.path, source.data)
    return None


def _name(source: SourceFile) -> str | None:
    found = _NAMED.search(source.data)
    return found.group(1).decode() if found else None
