"""A request for a response of the background: checked as far as it can be, and kept."""

import time
from functools import partial

import anyio

from app.accounts import JSONObject
from app.agents.checking import check_agent
from app.agents.request import agent_of
from app.errors import EngineError
from app.prepare import public_model
from app.responses.background.records import RunStatus
from app.responses.bodies import ResponsesRequest
from app.responses.convert import chat_request
from app.responses.input_items import messages_of
from app.responses.objects import Frame
from app.schemas import ChatCompletionRequest, ForewordOptions, check_fields
from app.services import Services
from app.stored.items import input_items
from app.stored.records import StoredResponse
from app.turns import SearchOptions

# In place of what was said before.
_SAID = ({"role": "user", "content": "?"},)


async def queue_response(
    services: Services, body: ResponsesRequest, raw: bytes, *, response_id: str, tenant: str
) -> JSONObject:
    """The response as it is queued; it is kept when this returns.

    What only the engine or a template can find fault with is told by the response when it ends.

    Args:
        body: `check_request` has seen it.
        raw: the same as it came.

    Raises:
        InvalidRequestError: it can't be answered.
        ConversationNotFoundError, ResponseNotFoundError: what it goes on from isn't there.
        GatewayError, PromptError, RetrievalError: what it names isn't there.
        QueueFullError: too many of the tenant's haven't ended.
    """
    asked = input_items(body.input)
    frame = Frame(
        id=response_id, model=_model(services, body), created_at=int(time.time()), request=body
    )
    response = frame.response(RunStatus.QUEUED.value, [])
    stored = StoredResponse(
        id=response_id,
        tenant=tenant,
        created_at=time.time(),
        previous_id=body.previous_response_id,
        conversation_id=body.conversation_id,
        response=response,
        input=[dict(item.item) for item in asked],
    )
    if agent_of(body) is None:
        chat = _chat(services, body)
        await _check_names(services, chat.foreword, tenant=tenant)
    else:
        # What it may choose from are the agent's tools.
        _chat(services, body.model_copy(update={"tool_choice": None}))
        await check_agent(services, body, tenant=tenant)

    def keep() -> None:
        if body.conversation_id is not None:
            services.stored.get(body.conversation_id, tenant=tenant)
        if body.previous_response_id is not None:
            services.stored_responses.said(body.previous_response_id, tenant=tenant)
        most = services.settings.background.waiting
        services.background.queue(stored, raw, streams=body.stream is True, most=most)

    await anyio.to_thread.run_sync(keep)
    services.background.changed()
    return response


def _chat(services: Services, body: ResponsesRequest) -> ChatCompletionRequest:
    allowed = services.settings.gateway.extra_fields
    goes_on = body.conversation_id is not None or body.previous_response_id is not None
    given = messages_of(body.input) or (_SAID if goes_on else None)
    chat = chat_request(body, frozenset(allowed), given)
    check_fields(chat, allowed)
    return chat


async def _check_names(services: Services, options: ForewordOptions | None, *, tenant: str) -> None:
    """That the template and the collection are there."""
    if options is None:
        return
    if options.template is not None:
        services.templates.find(options.template)
    if options.collection is not None:
        SearchOptions.of(services.settings.retrieval, options)
        resolve = partial(services.collections.resolve, options.collection, tenant=tenant)
        await anyio.to_thread.run_sync(resolve)


def _model(services: Services, body: ResponsesRequest) -> str:
    """As clients see it, where there is an engine to ask."""
    try:
        return public_model(services, services.fleet.view())
    except EngineError:
        return body.model
