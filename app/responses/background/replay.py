"""A response of the background as a stream, from any of its events on, as often as one likes."""

import time
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from functools import partial

import anyio
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from app.errors import GatewayStoppingError, ResponseNotFoundError
from app.hot.departure import ended_by_departure
from app.responses.background.following import Followers
from app.responses.background.records import LAST_EVENTS, UNDER_WAY, JSONObject, last_event
from app.responses.background.store import BackgroundStore
from app.responses.form import broken_off, spelled

# The last events are written just after the response's end is.
_LATE_S = 5.0


async def events_after(
    store: BackgroundStore,
    followers: Followers,
    response_id: str,
    *,
    tenant: str,
    after: int,
    now: Callable[[], float] = time.time,
) -> AsyncGenerator[list[JSONObject]]:
    """The events after a number, as they come, until the response's end.

    A response that is made anew after a crash is told from the beginning again, under further
    numbers. A cancelled or deleted one just ends.

    Raises:
        ResponseNotInBackgroundError: it isn't one that is streamed.
    """
    while True:
        news = followers.expects(response_id)
        look = partial(store.events, response_id, tenant=tenant, after=after)
        try:
            seen = await anyio.to_thread.run_sync(look)
        except ResponseNotFoundError:
            return
        if seen.events:
            yield list(seen.events)
            after = seen.events[-1]["sequence_number"]
            if seen.events[-1]["type"] in LAST_EVENTS:
                return
        elif seen.response["status"] not in UNDER_WAY:
            last = last_event(seen.response, seen.next_event)
            if last is None or after >= seen.next_event:
                return
            if seen.ended_at is None or now() > seen.ended_at + _LATE_S:
                yield [last]
                return
        await news.wait()


class Replay(Response):
    """The events as an HTTP answer."""

    def __init__(self, response_id: str, events: AsyncGenerator[list[JSONObject]]) -> None:
        super().__init__()
        self._response_id = response_id
        self._events = events

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """ASGI."""
        last: int | None = None
        end = b""
        try:
            with ended_by_departure(scope, receive):
                await send(_start(self._response_id))
                async with aclosing(self._events) as events:
                    async for more in events:
                        last = more[-1]["sequence_number"]
                        await send(_body(spelled(more)))
        except GatewayStoppingError as error:
            # The response goes on, here or elsewhere, and can be followed again.
            end = broken_off(error, 0 if last is None else last + 1)
        await send({"type": "http.response.body", "body": end, "more_body": False})


def _body(data: bytes) -> Message:
    return {"type": "http.response.body", "body": data, "more_body": True}


def _start(response_id: str) -> Message:
    headers = [
        (b"content-type", b"text/event-stream; charset=utf-8"),
        (b"cache-control", b"no-cache"),
        (b"x-accel-buffering", b"no"),
        (b"x-request-id", response_id.encode()),
    ]
    return {"type": "http.response.start", "status": 200, "headers": headers}
