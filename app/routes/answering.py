"""Answers, whole or streamed, that end with their client."""

import asyncio
from collections.abc import Callable
from contextlib import aclosing

import orjson
from fastapi.responses import Response
from starlette.types import Message, Receive, Scope, Send

from app.accounts import Account, JSONObject
from app.errors import EngineError
from app.hot.chunks import writer_of
from app.hot.departure import ended_by_departure
from app.pipeline import complete, finish, keep, open_stream, relay
from app.refusing import error_answer
from app.schemas import ChatCompletionRequest
from app.services import Services
from app.stream_forms import StreamForm


class Answer(Response):
    """Answers while it watches the client: one that goes away takes the engine's work with it.

    Args:
        whole: makes an API's answer of chat completions' own; for answers that aren't streamed.
        form: the same for each part of a streamed one.
    """

    def __init__(
        self,
        services: Services,
        request: ChatCompletionRequest,
        account: Account,
        *,
        whole: Callable[[JSONObject], JSONObject],
        form: StreamForm,
    ) -> None:
        super().__init__()
        self._services = services
        self._request = request
        self._account = account
        self._whole = whole
        self._form = form

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """ASGI."""
        self._services.metrics.in_flight.inc()
        try:
            with ended_by_departure(scope, receive) as departure:
                self._account.departure = departure
                await self._answer(scope, receive, send)
        finally:
            self._services.metrics.in_flight.dec()
            if (shadow := self._services.shadow) is not None:
                shadow.offer(self._account, self._request, scope)

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = {"x-request-id": self._account.request_id}
        try:
            if self._request.stream:
                await self._stream(scope, send)
                return
            answer = await complete(self._services, self._account)
        except EngineError as error:
            await error_answer(error, headers)(scope, receive, send)
            return
        whole = self._whole(answer)
        await keep(self._account)
        content = orjson.dumps(whole)
        await send(_whole_start(self._account.request_id, len(content)))
        await send({"type": "http.response.body", "body": content, "more_body": False})

    async def _stream(self, scope: Scope, send: Send) -> None:
        response = await open_stream(self._services, self._account)
        try:
            await send(_stream_start(self._account.request_id))
        except asyncio.CancelledError:  # the client is gone before anything was relayed
            response.close()
            await finish(self._services, self._account)
            raise
        chunks = relay(
            self._services, self._request, self._account, response, self._form, writer_of(scope)
        )
        async with aclosing(chunks):
            async for chunk in chunks:
                await send({"type": "http.response.body", "body": chunk, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})


def _whole_start(request_id: str, length: int) -> Message:
    headers = [
        (b"x-request-id", request_id.encode()),
        (b"content-length", b"%d" % length),
        (b"content-type", b"application/json"),
    ]
    return {"type": "http.response.start", "status": 200, "headers": headers}


def _stream_start(request_id: str) -> Message:
    headers = [
        (b"content-type", b"text/event-stream; charset=utf-8"),
        (b"cache-control", b"no-cache"),
        (b"x-accel-buffering", b"no"),
        (b"x-request-id", request_id.encode()),
    ]
    return {"type": "http.response.start", "status": 200, "headers": headers}
