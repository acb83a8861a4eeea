"""A response on its way, whoever asked for it: an HTTP request, or the gateway in the background.

What makes a response is a generator of its events. It knows no HTTP request, so that a response can
outlive the one that asked for it.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass
from types import SimpleNamespace

from starlette.requests import HTTPConnection

from app.accounts import Account, JSONObject
from app.admission.admitting import admit
from app.agents.request import agent_of
from app.agents.starting import agent_events
from app.callers import Caller
from app.errors import (
    ContextLengthError,
    ConversationTooLongError,
    InvalidRequestError,
)
from app.hot.departure import shielded
from app.pipeline import begin, open_stream, relay
from app.responses.bodies import ResponsesRequest
from app.responses.convert import chat_request
from app.responses.form import ResponsesForm
from app.responses.found import search_of
from app.responses.input_items import check_calls
from app.responses.objects import Frame
from app.responses.writer import Events, ResponseWriter
from app.schemas import ChatCompletionRequest
from app.services import Services
from app.stored.compaction import compact_if_due
from app.stored.responses import WriteResponse, insert_response
from app.stored.turn import Turn

Admits = Callable[[ChatCompletionRequest, int], Awaitable[ChatCompletionRequest]]

# What a field of chat completions is called here.
_PARAMS = {
    "foreword.collection": "tools",
    "foreword.filters": "tools",
    "max_completion_tokens": "max_output_tokens",
    "messages": "input",
    "response_format": "text.format",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A response that is to be made.

    Attributes:
        body: as the client sent it; `check_request` has seen it.
        account: of its first request to an engine; `pipeline.open_account` made it.
        response_id: what the client knows it by. The account has an id of its own: a response that
            is made again after a crash is another request to the engine and in the ledger.
        created_at: seconds since 1970.
        received_bytes: of the body.
        attempt: how often it was begun, with this time; above 1 a gateway died, or stopped, while
            it was made.
        write: writes its row, in the transaction that keeps the turn. It raises `NotStoredError`
            where the response is no longer this gateway's to make.
    """

    services: Services
    body: ResponsesRequest
    caller: Caller
    account: Account
    response_id: str
    created_at: int
    received_bytes: int
    attempt: int = 1
    write: WriteResponse = insert_response


async def response_events(asked: Asked) -> AsyncGenerator[JSONObject]:
    """The events of a response, numbered from 0, the last being its end.

    The response is durable before its last event is given. Whoever cancels or closes the generator
    stops the engine's request; nothing is kept then.

    Raises:
        GatewayError, PromptError, RetrievalError: before the first event; it can't be begun.
    """
    if agent_of(asked.body) is not None:
        async with aclosing(agent_events(asked)) as agents_events:
            async for event in agents_events:
                yield event
        return
    services, account = asked.services, asked.account
    body = asked.body.model_copy(update={"stream": True})
    turn = await Turn.begin(
        services, body, account, response_id=asked.response_id, write=asked.write
    )
    services.metrics.in_flight.inc()
    try:
        chat = await prepared(turn, _admits(asked))
        form = _EventForm(response_writer(asked.response_id, asked.created_at, turn, chat))
        account.keep = lambda: turn.keep(form.response, must=True)
        account.leave = turn.leave
        answer = await open_stream(services, account)
        async with aclosing(relay(services, chat, account, answer, form)) as pieces:
            async for _ in pieces:
                for event in form.taken():
                    yield event
    finally:
        services.metrics.in_flight.dec()
        if account.ticket is not None:
            account.ticket.close()
        with shielded(None):
            await turn.leave()


async def prepared(turn: Turn, admits: Admits) -> ChatCompletionRequest:
    """The request of chat completions, admitted and prepared; errors speak as this API does.

    Args:
        admits: lets a request in that has so many bytes of what was said before.
    """
    account, body = turn.account, turn.request
    allowed = frozenset(turn.services.settings.gateway.extra_fields)
    try:
        messages = turn.messages()
        check_calls(messages)
        chat = chat_request(body, allowed, messages)
        chat = await admits(chat, sum(len(str(item.item)) for item in turn.said.items))
        if await compact_if_due(turn):
            shorter = chat_request(body, allowed, turn.messages())
            chat = chat.model_copy(update={"messages": shorter.messages})
        await begin(turn.services, chat, account)
    except ContextLengthError as error:
        if turn.goes_on:
            raise ConversationTooLongError(turn.name, error) from error
        named_as_here(error)
        raise
    except InvalidRequestError as error:
        named_as_here(error)
        raise
    return chat


def response_writer(
    response_id: str, created_at: int, turn: Turn, chat: ChatCompletionRequest
) -> ResponseWriter:
    """What writes the response to a request that is prepared."""
    prompt = turn.account.prepared
    assert prompt is not None
    frame = Frame(id=response_id, model=prompt.model, created_at=created_at, request=turn.request)
    return ResponseWriter(frame, search_of(turn.request, chat, prompt))


class _EventForm(ResponsesForm):
    """Keeps the events themselves, for whoever reads what they are spelled as."""

    def __init__(self, writer: ResponseWriter) -> None:
        super().__init__(writer)
        self._events: list[JSONObject] = []

    def taken(self) -> list[JSONObject]:
        """Those since the last time."""
        taken, self._events = self._events, []
        return taken

    def spelled(self, events: Events) -> bytes:
        """Something, where there is something to take."""
        before = len(self._events)
        self._events.extend(events)
        return b"." if len(self._events) > before else b""


def _admits(asked: Asked) -> Admits:
    app = SimpleNamespace(state=SimpleNamespace(services=asked.services))
    scope = {"type": "http", "app": app, "headers": [], "state": {"caller": asked.caller}}

    async def admits(chat: ChatCompletionRequest, said_bytes: int) -> ChatCompletionRequest:
        received = asked.received_bytes + said_bytes
        return await admit(HTTPConnection(scope), chat, asked.account, received_bytes=received)

    return admits


def named_as_here(error: InvalidRequestError) -> None:
    """What is at fault, as this API calls it."""
    error.param = _PARAMS.get(error.param or "", error.param)
