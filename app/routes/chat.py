"""`POST /v1/chat/completions` and `GET /v1/models`."""

from contextlib import aclosing
from typing import Any

import anyio
import orjson
from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, Response
from starlette.types import Message, Receive, Scope, Send

from app.accounts import Account
from app.errors import EngineError, ModelNotFoundError
from app.pipeline import begin, complete, open_account, open_stream, relay
from app.prepare import ALIAS, public_model
from app.problems import error_body, problem_of
from app.routes.bodies import parse_body
from app.schemas import ChatCompletionRequest
from app.services import LOCAL_TENANT, Services, services_of

router = APIRouter()


@router.post("/v1/chat/completions")
async def chat_completions(request: Request) -> Response:
    """OpenAI's chat completions, with Foreword's fields under `foreword`."""
    services = services_of(request)
    account = open_account(services, tenant=LOCAL_TENANT)
    body = await parse_body(request, ChatCompletionRequest)
    await begin(services, body, account)
    return _Answer(services, body, account)


@router.get("/v1/models")
async def models(request: Request) -> dict[str, Any]:
    """The served model under its public name and its alias."""
    services = services_of(request)
    view = services.replica.view()
    return {
        "object": "list",
        "data": [_model(name, view.info.context_tokens) for name in _names(services)],
    }


@router.get("/v1/models/{name:path}")
async def model(request: Request, name: str) -> dict[str, Any]:
    """One model."""
    services = services_of(request)
    names = _names(services)
    if name not in names:
        raise ModelNotFoundError(name, names)
    return _model(name, services.replica.view().info.context_tokens)


def _names(services: Services) -> tuple[str, str]:
    return public_model(services, services.replica.view()), ALIAS


def _model(name: str, context_tokens: int) -> dict[str, Any]:
    return {
        "id": name,
        "object": "model",
        "created": 0,
        "owned_by": "foreword",
        "max_model_len": context_tokens,
    }


class _Answer(Response):
    """Answers while it watches the client: one that goes away takes the engine's work with it."""

    def __init__(self, services: Services, body: ChatCompletionRequest, account: Account) -> None:
        super().__init__()
        self._services = services
        self._body = body
        self._account = account

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._services.metrics.in_flight.inc()
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(_cancel_on_disconnect, receive, tasks.cancel_scope)
                await self._answer(scope, receive, send)
                tasks.cancel_scope.cancel()
        finally:
            self._services.metrics.in_flight.dec()

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = {"x-request-id": self._account.request_id}
        try:
            if self._body.stream:
                await self._stream(send)
                return
            answer = await complete(self._services, self._account)
        except EngineError as error:
            status = problem_of(error).status
            await JSONResponse(error_body(error), status, headers)(scope, receive, send)
            return
        content = orjson.dumps(answer)
        response = Response(content, headers=headers, media_type="application/json")
        await response(scope, receive, send)

    async def _stream(self, send: Send) -> None:
        response = await open_stream(self._services, self._account)
        await send(_stream_start(self._account.request_id))
        chunks = relay(self._services, self._body, self._account, response)
        async with aclosing(chunks):
            async for chunk in chunks:
                await send({"type": "http.response.body", "body": chunk, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})


def _stream_start(request_id: str) -> Message:
    headers = [
        (b"content-type", b"text/event-stream; charset=utf-8"),
        (b"cache-control", b"no-cache"),
        (b"x-accel-buffering", b"no"),
        (b"x-request-id", request_id.encode()),
    ]
    return {"type": "http.response.start", "status": 200, "headers": headers}


async def _cancel_on_disconnect(receive: Receive, scope: anyio.CancelScope) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    scope.cancel()
