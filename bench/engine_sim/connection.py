"""What every route of the simulated engine shares: bodies in, errors out, faults, disconnects."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import anyio
import orjson
from pydantic import BaseModel, ValidationError
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from bench.engine_sim import wire
from bench.engine_sim.faults import Fault, FaultKind, FaultPlan
from bench.engine_sim.limits import RequestRefusedError

Body = TypeVar("Body", bound=BaseModel)
Connections = dict[tuple[str, int], asyncio.Transport]


class JsonResponse(Response):
    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        return orjson.dumps(content)


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
        raise RequestRefusedError(_dump(error, request.url.path), type="Bad Request") from error


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


class FaultInjector:
    """ASGI middleware: lets due faults happen before, or while, a route answers."""

    def __init__(self, app: ASGIApp, plan: FaultPlan, connections: Connections) -> None:
        """`connections` has the open transports by the client's address."""
        self._app = app
        self._plan = plan
        self._connections = connections

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        fault = self._plan.take(scope["path"]) if scope["type"] == "http" else None
        match fault:
            case None:
                await self._app(scope, receive, send)
            case Fault(kind=FaultKind.DELAY):
                await anyio.sleep(fault.seconds)
                await self._app(scope, receive, send)
            case Fault(kind=FaultKind.ERROR):
                problem = wire.error(
                    "fault on order", type="InternalServerError", status=fault.status
                )
                await JsonResponse(problem, status_code=fault.status)(scope, receive, send)
            case Fault(kind=FaultKind.HANG):
                await _wait_for_disconnect(receive)
            case Fault(kind=FaultKind.DROP, after_chunks=0):
                self._drop(scope)
                await _wait_for_disconnect(receive)
            case Fault(kind=FaultKind.DROP):
                await self._app(scope, receive, self._dropping(scope, send, fault.after_chunks))

    def _drop(self, scope: Scope) -> None:
        transport = self._connections.get(tuple(scope["client"]))
        if transport is not None:
            transport.abort()

    def _dropping(self, scope: Scope, send: Send, chunks: int) -> Send:
        """A `send` that drops the connection in place of the part after `chunks` parts."""
        left = chunks

        async def counted(message: Message) -> None:
            nonlocal left
            if message["type"] == "http.response.body" and message.get("body"):
                if left == 0:
                    self._drop(scope)
                    return
                left -= 1
            await send(message)

        return counted


async def _wait_for_disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def _dump(error: ValidationError, path: str) -> str:
    """A body that isn't of its kind, as SGLang tells it: with its own source and what was sent.

    Source: sglang 0.5.23 entrypoints/http_server.py validation_exception_handler; a real answer.
    """
    errors = [
        {name: each[name] for name in ("type", "loc", "msg", "input", "ctx") if name in each}
        | {"loc": ("body", *each["loc"])}
        for each in error.errors(include_url=False)
    ]
    head = f"{len(errors)} validation error{'' if len(errors) == 1 else 's'}:"
    lines = "".join(f"\n  {each}" for each in errors)
    source = "/usr/lib/python3.11/site-packages/sglang/srt/entrypoints/http_server.py"
    return f'{head}{lines}\n\n  File "{source}", line 1870, in route\n    POST {path} {errors}'


def _invalid(message: str) -> RequestRefusedError:
    """SGLang's answer to a body that FastAPI refuses: one sentence, status 400."""
    return RequestRefusedError(f"1 validation error:\n  {message}", type="Bad Request")
