"""`/v1/responses`: OpenAI's Responses API, by way of chat completions' pipeline."""

import time
from collections.abc import Mapping
from functools import partial
from typing import Annotated, Any, Literal

import anyio
from fastapi import APIRouter, Depends, Query, Request
from fastapi.responses import JSONResponse, Response
from pydantic import Field
from starlette.types import Receive, Scope, Send

from app.accounts import Account
from app.admission.admitting import admit
from app.admission.counting import counted
from app.agents.answering import AgentAnswer
from app.agents.request import agent_of, check_agent_request
from app.callers import caller_of, tenant_of
from app.errors import InvalidRequestError, ResponseNotFoundError
from app.hot.departure import shielded
from app.paging import ListQuery, cut_page, list_object
from app.pipeline import open_account
from app.response_cache.serving import Whole, kept_or_new
from app.responses.background.queueing import queue_response
from app.responses.background.replay import Replay, events_after
from app.responses.bodies import ResponsesRequest
from app.responses.counting import InputTokensRequest, input_tokens
from app.responses.form import ResponsesForm
from app.responses.including import Included
from app.responses.refusals import check_includes, check_request
from app.responses.running import Asked, prepared, response_writer
from app.routes.answering import Answer
from app.routes.bodies import parse_body
from app.schemas import ChatCompletionRequest
from app.services import Services, services_of
from app.stored.tool_marks import unmarked
from app.stored.turn import Turn
from app.stream_forms import StreamForm

router = APIRouter(prefix="/v1/responses")


class _TurnAnswer(Answer):
    """An answer whose turn ends with it, however that is."""

    def __init__(self, turn: Turn, *given: Any, **further: Any) -> None:
        super().__init__(*given, **further)
        self._turn = turn

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """ASGI."""
        try:
            await super().__call__(scope, receive, send)
        finally:
            with shielded(None):
                await self._turn.leave()


@router.post("")
async def create(request: Request) -> Response:
    """A response, whole or as a stream of events, with citations as annotations."""
    services = services_of(request)
    account = open_account(services, tenant=tenant_of(request), prefix="resp_")
    request.state.request_id = account.request_id
    body = await parse_body(request, ResponsesRequest)
    allowed = frozenset(services.settings.gateway.extra_fields)
    check_request(body, allowed)
    agent = agent_of(body)
    if agent is not None:
        check_agent_request(body)
        services.agents.library.find(agent)
    if body.background:
        return await _queued(request, body, account.request_id)
    asked_to_store = body.store is True
    if body.store is None:
        body = body.model_copy(update={"store": services.settings.conversations.store_responses})
    if agent is not None:
        return await _by_agent(request, body, account)
    turn = await Turn.begin(services, body, account)
    try:
        chat = await prepared(turn, partial(_admitted, request, account))
    except BaseException:
        with shielded(None):
            await turn.leave()
        raise
    account.leave = turn.leave
    form = ResponsesForm(response_writer(account.request_id, int(time.time()), turn, chat))
    if body.is_stored or turn.conversation is not None:
        # In a stream the client has been told of it when it is kept.
        must_keep = asked_to_store or turn.goes_on or chat.stream
        account.keep = lambda: turn.keep(form.response, must=must_keep)

    def new(whole: Whole, form: StreamForm) -> Response:
        return _TurnAnswer(turn, services, chat, account, whole=whole, form=form)

    cache = services.response_cache
    if cache is None or turn.goes_on:
        return new(form.whole, form)
    return await kept_or_new(
        cache, services, request, chat, account, whole=form.whole, form=form, new=new
    )


@router.post("/input_tokens", dependencies=[Depends(counted)])
async def count_input_tokens(request: Request) -> dict[str, Any]:
    """How many tokens the prompt of such a response would have; nothing is sent to an engine."""
    services = services_of(request)
    account = open_account(services, tenant=tenant_of(request), prefix="resp_")
    body = await parse_body(request, InputTokensRequest)
    check_request(body, frozenset(services.settings.gateway.extra_fields))
    if agent_of(body) is not None:
        problem = "an agent makes its prompts while it works; name the model to count for"
        raise InvalidRequestError(problem, param="model")
    tokens = await input_tokens(services, body, account)
    return {"object": "response.input_tokens", "input_tokens": tokens}


class InputItemsQuery(ListQuery, Included):
    """The query of the list of what a response answered."""


class ResponseQuery(Included):
    """The query of a response: as it is, or its events after one of them. What was found is told
    where the request that made it asked for it."""

    include_obfuscation: Literal[False] | None = None
    stream: bool = False
    starting_after: Annotated[int, Field(ge=0)] | None = None


@router.get("/{response_id}", dependencies=[Depends(counted)])
async def one(
    request: Request, response_id: str, query: Annotated[ResponseQuery, Query()]
) -> Response:
    """A stored response, as it was when it was made, or as it stands; or its events as a stream."""
    services = services_of(request)
    check_includes(query.included)
    if query.stream:
        # To follow a response isn't to use an engine: it leaves room for the response itself.
        request.scope["state"]["ticket"].close()
        after = -1 if query.starting_after is None else query.starting_after
        return await _followed(services, response_id, tenant=tenant_of(request), after=after)
    get = partial(services.stored_responses.get, response_id, tenant=tenant_of(request))
    try:
        stored = await anyio.to_thread.run_sync(get)
    except ResponseNotFoundError:
        show = partial(services.agents.unfinished, response_id, tenant=tenant_of(request))
        if (response := await anyio.to_thread.run_sync(show)) is not None:
            return JSONResponse(response)
        # Between the two looks it may have ended, and is stored since then.
        stored = await anyio.to_thread.run_sync(get)
    return JSONResponse(stored.response)


@router.delete("/{response_id}", dependencies=[Depends(counted)])
async def delete(request: Request, response_id: str) -> dict[str, Any]:
    """Forget a response, and stop it where it is being made; a conversation keeps what it has."""
    background = services_of(request).background
    remove = partial(background.delete, response_id, tenant=tenant_of(request))
    await anyio.to_thread.run_sync(remove)
    background.changed()
    services_of(request).agents.changed()
    return {"id": response_id, "object": "response", "deleted": True}


@router.post("/{response_id}/cancel", dependencies=[Depends(counted)])
async def cancel(request: Request, response_id: str) -> Response:
    """Stop a response of the background; one that has ended stays as it is."""
    services = services_of(request)
    stop = partial(
        services.background.cancel, response_id, tenant=tenant_of(request), now=time.time()
    )
    response = await anyio.to_thread.run_sync(stop)
    services.background.changed()
    services.agents.changed()
    services.followers.tell(response_id)
    return JSONResponse(response)


@router.get("/{response_id}/input_items", dependencies=[Depends(counted)])
async def input_items(
    request: Request, response_id: str, query: Annotated[InputItemsQuery, Query()]
) -> dict[str, Any]:
    """What a response answered, of its own request alone; newest first unless asked otherwise."""
    check_includes(query.included)
    get = partial(services_of(request).stored_responses.get, response_id, tenant=tenant_of(request))
    stored = await anyio.to_thread.run_sync(get)
    page, has_more = cut_page(stored.input, query, id_of=_id)
    return list_object([unmarked(item) for item in page], has_more=has_more)


async def _by_agent(request: Request, body: ResponsesRequest, account: Account) -> Response:
    asked = Asked(
        services=services_of(request),
        body=body,
        caller=caller_of(request),
        account=account,
        response_id=account.request_id,
        created_at=int(time.time()),
        received_bytes=len(await request.body()),
    )
    return AgentAnswer(asked, streams=body.stream is True)


async def _queued(request: Request, body: ResponsesRequest, response_id: str) -> Response:
    services, caller = services_of(request), caller_of(request)
    async with services.admission.admit(caller, cost_tokens=0, takes_turn=False):
        raw = await request.body()
        response = await queue_response(
            services, body, raw, response_id=response_id, tenant=caller.tenant
        )
    if body.stream:
        return await _followed(services, response_id, tenant=caller.tenant, after=-1)
    return JSONResponse(response, headers={"x-request-id": response_id})


async def _followed(services: Services, response_id: str, *, tenant: str, after: int) -> Response:
    """Raises ResponseNotFoundError, ResponseNotInBackgroundError."""
    store = services.background
    look = partial(store.events, response_id, tenant=tenant, after=after)
    await anyio.to_thread.run_sync(look)
    events = events_after(store, services.followers, response_id, tenant=tenant, after=after)
    return Replay(response_id, events)


async def _admitted(
    request: Request, account: Account, chat: ChatCompletionRequest, said_bytes: int
) -> ChatCompletionRequest:
    received = len(await request.body()) + said_bytes
    return await admit(request, chat, account, received_bytes=received)


def _id(item: Mapping[str, Any]) -> str:
    return str(item["id"])
