"""Direct routes answer as the framework would, and leave everything else to it."""

from collections.abc import AsyncIterator, Awaitable, Callable

import httpx
import pytest
from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.requests import ClientDisconnect
from starlette.types import Message

from app.hot import DirectRoutes

pytestmark = pytest.mark.anyio

Endpoint = Callable[[Request], Awaitable[Response]]


class KnownError(Exception):
    """Has a handler."""


class ParticularError(KnownError):
    """Has the handler of its base."""


async def tell(request: Request, error: Exception) -> Response:
    name = getattr(request.state, "name", None)
    return JSONResponse({"error": str(error), "name": name}, 418)


async def hello(request: Request) -> Response:
    return PlainTextResponse(b"direct " + await request.body())


async def by_framework() -> str:
    return "framework"


async def refuse(request: Request) -> Response:
    request.state.name = "r-1"
    raise ParticularError("no")


async def fail(_request: Request) -> Response:
    raise LookupError("a fault of ours")


async def break_off(_request: Request) -> Response:
    async def parts() -> AsyncIterator[bytes]:
        yield b"one"
        raise KnownError("too late to be told")

    return StreamingResponse(parts())


async def twice(request: Request) -> Response:
    return PlainTextResponse(await request.body() + b" " + await request.body())


async def in_parts() -> AsyncIterator[bytes]:
    yield b"in "
    yield b"parts"


async def post(
    endpoint: Endpoint, *, raises: bool = True, content: bytes | AsyncIterator[bytes] = b"you"
) -> httpx.Response:
    app = FastAPI()
    app.add_middleware(DirectRoutes, routes={"/here": endpoint}, errors={KnownError: tell})
    app.post("/here")(by_framework)
    app.post("/there")(by_framework)
    transport = httpx.ASGITransport(app, raise_app_exceptions=raises)
    async with httpx.AsyncClient(transport=transport, base_url="http://gateway") as client:
        assert (await client.get("/here")).status_code == 405
        assert (await client.post("/there")).json() == "framework"
        return await client.post("/here", content=content)


async def test_a_direct_route_is_answered_before_the_frameworks_own() -> None:
    assert (await post(hello)).text == "direct you"


async def test_a_body_is_read_whole_and_may_be_read_again() -> None:
    assert (await post(twice, content=in_parts())).text == "in parts in parts"


async def test_a_client_that_leaves_while_it_sends_is_told() -> None:
    async def receive() -> Message:
        return messages.pop()

    async def send(message: Message) -> None:
        sent.append(message)

    sent: list[Message] = []
    messages: list[Message] = [
        {"type": "http.disconnect"},
        {"type": "http.request", "body": b"{", "more_body": True},
    ]
    scope = {"type": "http", "method": "POST", "path": "/here", "headers": [], "state": {}}
    routes = DirectRoutes(FastAPI(), routes={"/here": hello}, errors={ClientDisconnect: tell})
    await routes(scope, receive, send)
    assert [message.get("status") for message in sent] == [418, None]


async def test_a_known_error_is_told_by_the_handler_of_its_nearest_base() -> None:
    answer = await post(refuse)
    assert (answer.status_code, answer.json()) == (418, {"error": "no", "name": "r-1"})


async def test_an_unknown_error_is_left_to_the_framework() -> None:
    assert (await post(fail, raises=False)).status_code == 500


async def test_an_error_after_the_first_byte_is_no_second_answer() -> None:
    with pytest.raises(KnownError):
        await post(break_off)
