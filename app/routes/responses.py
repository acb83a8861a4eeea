"""`POST /v1/responses`: OpenAI's Responses API, by way of chat completions' pipeline."""

import time

from fastapi import APIRouter, Request
from fastapi.responses import Response

from app.accounts import Account
from app.errors import InvalidRequestError, ResponseNotFoundError
from app.pipeline import begin, open_account
from app.responses.bodies import ResponsesRequest
from app.responses.convert import chat_request
from app.responses.form import ResponsesForm
from app.responses.found import search_of
from app.responses.objects import Frame
from app.responses.refusals import check_request
from app.responses.writer import ResponseWriter
from app.routes.answering import Answer
from app.routes.bodies import parse_body
from app.schemas import ChatCompletionRequest
from app.services import LOCAL_TENANT, Services, services_of

router = APIRouter(prefix="/v1/responses")

# What a field of chat completions is called here.
_PARAMS = {"messages": "input", "foreword.collection": "tools", "foreword.filters": "tools"}


@router.post("")
async def create(request: Request) -> Response:
    """A response, whole or as a stream of events, with citations as annotations."""
    services = services_of(request)
    account = open_account(services, tenant=LOCAL_TENANT, prefix="resp_")
    request.state.request_id = account.request_id
    body = await parse_body(request, ResponsesRequest)
    allowed = frozenset(services.settings.gateway.extra_fields)
    check_request(body, allowed)
    chat = chat_request(body, allowed)
    await _begin(services, chat, account)
    assert account.prepared is not None
    frame = Frame(
        id=account.request_id,
        model=account.prepared.model,
        created_at=int(time.time()),
        request=body,
    )
    form = ResponsesForm(ResponseWriter(frame, search_of(body, chat, account.prepared)))
    return Answer(services, chat, account, whole=form.whole, form=form)


@router.get("/{response_id}")
@router.delete("/{response_id}")
async def not_stored(response_id: str) -> Response:
    """Nothing is here to be had or deleted."""
    raise ResponseNotFoundError(response_id)


async def _begin(services: Services, chat: ChatCompletionRequest, account: Account) -> None:
    """Prepare the request; what is at fault is named as in the Responses API."""
    try:
        await begin(services, chat, account)
    except InvalidRequestError as error:
        error.param = _PARAMS.get(error.param or "", error.param)
        raise
