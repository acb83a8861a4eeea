"""What can be seen of a request for an agent before anything is done for it."""

from contextlib import AsyncExitStack
from functools import partial

import anyio

from app.agents.builtin import shelf_of
from app.agents.request import agent_of, check_agent_request
from app.responses.bodies import ResponsesRequest
from app.services import Services
from prompts.agent import Agent, BuiltInTool, McpTools


async def check_agent(services: Services, body: ResponsesRequest, *, tenant: str) -> Agent:
    """The agent that is asked for; nothing is said to an engine or to a server of tools.

    Raises:
        AgentNotFoundError: there is none such.
        InvalidRequestError: what only its file may say, or filters that aren't in OpenAI's shape.
        CollectionNotFoundError, AmbiguousCollectionError: its tools are to look into it.
        GatewayError: a server isn't declared, or its tools aren't pinned.
    """
    check_agent_request(body)
    library = services.agents.library
    agent = library.find(agent_of(body) or "")
    async with AsyncExitStack() as stack:
        for each in library.family(agent):
            for entry in each.tools:
                match entry:
                    case BuiltInTool():
                        settings = services.settings.retrieval
                        shelf_of(services.collections, settings, entry, body.foreword)
                    case McpTools():
                        source = services.agents.servers.open(entry, each)
                        stack.push_async_callback(source.close)
    name = body.foreword.collection if body.foreword is not None else None
    if name is not None:
        resolve = partial(services.collections.resolve, name, tenant=tenant)
        await anyio.to_thread.run_sync(resolve)
    return agent
