"""The response that an agent makes as an HTTP answer, which ends with its client."""

from contextlib import aclosing
from typing import TYPE_CHECKING

import orjson
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from app.accounts import JSONObject
from app.agents.starting import agent_events
from app.errors import GatewayError, GatewayStoppingError
from app.hot.departure import ended_by_departure
from app.refusing import error_answer
from app.responses.form import broken_off, spelled
from prompts import PromptError
from retrieval import RetrievalError

if TYPE_CHECKING:
    from app.responses.running import Asked


class AgentAnswer(Response):
    """A client that goes away cancels its run."""

    def __init__(self, asked: "Asked", *, streams: bool) -> None:
        super().__init__()
        self._asked = asked
        self._streams = streams
        # Of the last event that was sent; None where the answer hasn't begun.
        self._sent: int | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """ASGI."""
        try:
            await self._answer(scope, receive, send)
        except GatewayStoppingError as error:
            if self._sent is None:
                raise
            body = broken_off(error, self._sent + 1)
            await send({"type": "http.response.body", "body": body, "more_body": False})

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        with ended_by_departure(scope, receive) as departure:
            self._asked.account.departure = departure
            try:
                if self._streams:
                    await self._stream(send)
                    return
                content = orjson.dumps(await self._whole())
            except (GatewayError, PromptError, RetrievalError) as error:
                headers = {"x-request-id": self._asked.response_id}
                await error_answer(error, headers)(scope, receive, send)
                return
            await send(self._start(b"application/json", length=len(content)))
            await send({"type": "http.response.body", "body": content, "more_body": False})

    async def _whole(self) -> JSONObject:
        """The response as the last event has it."""
        response: JSONObject = {}
        async with aclosing(agent_events(self._asked)) as events:
            async for event in events:
                response = event.get("response", response)
        return response

    async def _stream(self, send: Send) -> None:
        """What can't be begun is told with a status of its own: nothing is sent before."""
        async with aclosing(agent_events(self._asked)) as events:
            async for event in events:
                if self._sent is None:
                    await send(self._start(b"text/event-stream; charset=utf-8"))
                self._sent = event["sequence_number"]
                body = spelled([event])
                await send({"type": "http.response.body", "body": body, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    def _start(self, kind: bytes, *, length: int | None = None) -> JSONObject:
        headers = [(b"content-type", kind), (b"x-request-id", self._asked.response_id.encode())]
        if length is None:
            headers += [(b"cache-control", b"no-cache"), (b"x-accel-buffering", b"no")]
        else:
            headers.append((b"content-length", b"%d" % length))
        return {"type": "http.response.start", "status": 200, "headers": headers}
