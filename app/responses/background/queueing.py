"""A request for a response of the background: checked as far as it can be, and kept."""

import time

import anyio

from app.accounts import JSONObject
from app.errors import EngineError
from app.prepare import public_model
from app.responses.background.records import RunStatus
from app.responses.bodies import ResponsesRequest
from app.responses.convert import chat_request
from app.responses.objects import Frame
from app.schemas import check_fields
from app.services import Services
from app.stored.items import input_items
from app.stored.records import StoredResponse


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
    if body.conversation_id is None and body.previous_response_id is None:
        allowed = services.settings.gateway.extra_fields
        check_fields(chat_request(body, frozenset(allowed)), allowed)

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


def _model(services: Services, body: ResponsesRequest) -> str:
    """As clients see it, where there is an engine to ask."""
    try:
        return public_model(services, services.fleet.view())
    except EngineError:
        return body.model
