"""The answer to a completion's prompts, whole or streamed, that ends with its client.

Each prompt is sent, counted and written down by itself, some at a time; their answers come back as
one: in the prompts' order when whole, as they come when streamed. Where one fails, the others are
given up.
"""

from collections.abc import Awaitable, Callable, Sequence
from contextlib import aclosing
from typing import NamedTuple

import anyio
import orjson
from fastapi.responses import Response
from starlette.types import Receive, Scope, Send

from app.accounts import Account, JSONObject
from app.completions.body import CompletionRequest
from app.completions.form import CompletionForm
from app.completions.joined import joined
from app.errors import EngineError, GatewayStoppingError
from app.hot.departure import ended_by_departure
from app.pipeline import complete, open_stream, relay
from app.problems import error_body
from app.refusing import error_answer, noted
from app.services import Services
from app.sse import DONE, event

# So many prompts of one request are with the engine at a time.
_AT_ONCE = 16


class OnePrompt(NamedTuple):
    """A prompt that is ready to be sent, and how its answer is spelled."""

    request: CompletionRequest
    account: Account
    form: CompletionForm


class CompletionAnswer(Response):
    """Answers while it watches the client: one that goes away takes the engine's work with it."""

    def __init__(self, services: Services, prompts: Sequence[OnePrompt]) -> None:
        super().__init__()
        self._services = services
        self._prompts = prompts
        self._id = prompts[0].account.request_id
        self._has_begun = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """ASGI."""
        self._services.metrics.in_flight.inc()
        try:
            with ended_by_departure(scope, receive) as departure:
                for prompt in self._prompts:
                    prompt.account.departure = departure
                await self._answer(scope, receive, send)
        except GatewayStoppingError as error:
            if not self._has_begun:
                raise
            await self._broken_off(error, send)
        finally:
            self._services.metrics.in_flight.dec()

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = {"x-request-id": self._id}
        try:
            if self._prompts[0].request.stream:
                await self._stream(send)
                return
            content = orjson.dumps(await self._whole())
        except EngineError as error:
            if self._has_begun:  # the status has been sent: the error is the last event
                await self._broken_off(error, send)
                return
            answer: Response = error_answer(error, headers)
        else:
            answer = Response(content, headers=headers, media_type="application/json")
        await answer(scope, receive, send)

    async def _broken_off(self, error: EngineError | GatewayStoppingError, send: Send) -> None:
        noted(error)
        body = event(orjson.dumps(error_body(error)))
        await send({"type": "http.response.body", "body": body, "more_body": False})

    async def _whole(self) -> JSONObject:
        answers: dict[int, JSONObject] = {}

        async def one(place: int) -> None:
            prompt = self._prompts[place]
            answers[place] = prompt.form.whole(await complete(self._services, prompt.account))

        await _each(one, len(self._prompts))
        return joined([answers[place] for place in range(len(self._prompts))])

    async def _stream(self, send: Send) -> None:
        turn = anyio.Lock()

        async def one(place: int) -> None:
            request, account, form = self._prompts[place]
            response = await open_stream(self._services, account)
            events = relay(self._services, request, account, response, form)
            async with aclosing(events):
                async for data in events:
                    if data:
                        async with turn:
                            await self._send_event(send, data)
            if form.error is not None:
                raise form.error

        await _each(one, len(self._prompts))
        ends = [form.last for _, _, form in self._prompts if form.last is not None]
        last = event(orjson.dumps(joined(ends))) if ends else b""
        await self._send_event(send, last + event(DONE))
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _send_event(self, send: Send, data: bytes) -> None:
        if not self._has_begun:
            self._has_begun = True
            await send(
                {
                    "type": "http.response.start",
                    "status": 200,
                    "headers": [
                        (b"content-type", b"text/event-stream; charset=utf-8"),
                        (b"cache-control", b"no-cache"),
                        (b"x-accel-buffering", b"no"),
                        (b"x-request-id", self._id.encode()),
                    ],
                }
            )
        await send({"type": "http.response.body", "body": data, "more_body": True})


async def _each(work: Callable[[int], Awaitable[None]], count: int) -> None:
    """Do it for each number below `count`, some at a time; the first failure ends the others.

    Raises:
        EngineError: what the first that failed raised.
    """
    failed: list[EngineError] = []
    room = anyio.CapacityLimiter(_AT_ONCE)

    async def one(number: int, scope: anyio.CancelScope) -> None:
        try:
            async with room:
                await work(number)
        except EngineError as error:
            failed.append(error)
            scope.cancel()

    async with anyio.create_task_group() as tasks:
        for number in range(count):
            tasks.start_soon(one, number, tasks.cancel_scope)
    if failed:
        raise failed[0]
