"""What every route of the simulated engine shares: bodies in, errors out, faults, disconnects."""

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from typing import Any, TypeVar

import anyio
import orjson
from pydantic import BaseModel, ValidationError
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from bench.engine_sim import wire
from bench.engine_sim.faults import FaultKind, FaultPlan
from bench.engine_sim.limits import RequestRefusedError

Body = TypeVar("Body", bound=BaseModel)


class JsonResponse(Response):
    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        return orjson.dumps(content)


class ConnectionDroppedError(Exception):
    """Raised to make the server close a connection in the middle of an answer."""


async def read_body(request: Request, kind: type[Body]) -> Body:
    """The request's body.

    Raises:
        RequestRefusedError: not JSON by its header, not JSON, or not of this kind.
    """
    media_type = request.headers.get("content-type", "").lower().split(";", maxsplit=1)[0]
    if media_type != "application/json":
        raise _invalid("Unsupported Media Type: Only 'application/json' is allowed")
    try:
        return kind.model_validate(orjson.loads(await request.body()))
    except orjson.JSONDecodeError as error:
        raise _invalid(f"JSON decode error: {error}") from error
    except ValidationError as error:
        raise _invalid(str(error)) from error


def refused(error: RequestRefusedError) -> Response:
    body = wire.error(error.message, type=error.type, status=error.status)
    return JsonResponse(body, status_code=error.status)


async def unless_disconnected(request: Request, work: Callable[[], Awaitable[None]]) -> bool:
    """Do the work; False when the client left before it was done."""
    done = False

    async def watch(scope: anyio.CancelScope) -> None:
        while (await request.receive())["type"] != "http.disconnect":
            pass
        scope.cancel()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(watch, tasks.cancel_scope)
        await work()
        done = True
        tasks.cancel_scope.cancel()
    return done


async def cut_after(stream: AsyncIterator[bytes], chunks: int) -> AsyncGenerator[bytes]:
    """The stream's first chunks, and then a closed connection."""
    async for part in stream:
        if chunks == 0:
            break
        chunks -= 1
        yield part
    raise ConnectionDroppedError


class FaultInjector:
    """ASGI middleware: lets due faults happen before a request reaches its route.

    A drop in the middle of a stream is left to the route, in `request.state.drop_after`.
    """

    def __init__(self, app: ASGIApp, plan: FaultPlan) -> None:
        self._app = app
        self._plan = plan

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        fault = self._plan.take(scope["path"]) if scope["type"] == "http" else None
        if fault is None:
            await self._app(scope, receive, send)
            return
        match fault.kind:
            case FaultKind.DELAY:
                await anyio.sleep(fault.seconds)
            case FaultKind.ERROR:
                problem = wire.error(
                    "fault on order", type="InternalServerError", status=fault.status
                )
                await JsonResponse(problem, status_code=fault.status)(scope, receive, send)
                return
            case FaultKind.HANG:
                await _wait_for_disconnect(receive)
                return
            case FaultKind.DROP if fault.after_chunks == 0:
                # The server closes a connection whose application says nothing.
                return
            case FaultKind.DROP:
                scope.setdefault("state", {})["drop_after"] = fault.after_chunks
        await self._app(scope, receive, send)


async def _wait_for_disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def _invalid(message: str) -> RequestRefusedError:
    """SGLang's answer to a body that FastAPI refuses: one sentence, status 400."""
    return RequestRefusedError(f"1 validation error:\n  {message}", type="Bad Request")
