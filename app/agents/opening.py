"""The agents of this deployment, with all that they need."""

import os

import sqlalchemy as sa

from app.agents.agents import Agents
from app.agents.store import RunStore
from app.agents.toolbox import OpensTools
from app.errors import InvalidSettingError
from app.settings import Settings
from prompts import TemplateLibrary, TemplateNotFoundError
from prompts.agent_library import load_agents, shipped_agents
from prompts.errors import TemplateSyntaxError


def open_agents(
    settings: Settings, database: sa.Engine, templates: TemplateLibrary, *, servers: OpensTools
) -> Agents:
    """The agents that ship, and those of this deployment.

    Raises:
        InvalidSettingError: there is no such folder.
        TemplateError: a file is at fault, or names a template that isn't there.
    """
    folder = settings.agents.folder
    if folder is not None and not folder.is_dir():
        raise InvalidSettingError("agents.folder", f"there is no folder {folder}")
    library = load_agents(shipped_agents(), *([folder] if folder is not None else []))
    for agent in library:
        try:
            templates.find(agent.template)
        except TemplateNotFoundError as error:
            line, column = agent.place("template")
            raise TemplateSyntaxError(agent.path, line, column, str(error)) from error
    store = RunStore(database, owner=os.urandom(16).hex(), lease_s=settings.agents.lease_s)
    return Agents(library=library, store=store, servers=servers)
