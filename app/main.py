"""`create_app(settings)`: the gateway as an ASGI app."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import anyio
import sqlalchemy as sa
import structlog
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.routing import Match
from starlette.types import ASGIApp, Receive, Scope, Send

from app.admission.authentication import Authentication
from app.agents.toolbox import OpensTools
from app.agents.watch import AgentWatch
from app.background import kept_going
from app.batches.opening import open_runner
from app.body_limit import BodyLimit, HeldBodies
from app.errors import DatabaseAwayError, GatewayError
from app.head_requests import HeadAsGet
from app.hot import DirectRoutes
from app.hot.direct import Endpoint, ErrorHandler
from app.lane.lane import open_lane
from app.log import LineWriter
from app.observation import saw_error
from app.observer import Observer
from app.openapi import openapi_document
from app.refusing import error_answer
from app.responses.background.opening import open_background
from app.routes import (
    agents,
    batches,
    chat,
    collections,
    completions,
    conversations,
    embeddings,
    explain,
    files,
    keys,
    models,
    ops,
    plan,
    replicas,
    report,
    response_cache,
    responses,
    shadow,
    sync,
    templates,
    tenants,
    ui,
    vector_store_files,
    vector_stores,
)
from app.routes.bodies import invalid
from app.services import open_services
from app.settings import Settings
from app.unserved import unserved
from app.version import VERSION
from app.wire.cors import CrossOrigin
from app.wire.pages import PageGuard
from cache.errors import CacheError
from prompts import PromptError
from retrieval import RetrievalError

_log = structlog.get_logger()
_KNOWN: tuple[type[Exception], ...] = (GatewayError, PromptError, CacheError, RetrievalError)
# Of servers that are gone, files that are locked or can't be written, and full disks; last, of a
# pool whose connections all wait for those.
_DATABASE_AWAY: tuple[type[Exception], ...] = (
    sa.exc.OperationalError,
    sa.exc.InterfaceError,
    sa.exc.TimeoutError,
)
# In the order in which a 405 names them.
_METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")
_DIRECT: Mapping[str, Endpoint] = {
    "/v1/chat/completions": chat.chat_completions,
    "/v1/completions": completions.completions,
    "/v1/responses": responses.create,
}
# What a batch's requests may be for.
_IN_BATCHES = {**_DIRECT, "/v1/embeddings": embeddings.embeddings}


class _App(FastAPI):
    """FastAPI, with a document of its own, and our middleware outside of the framework's.

    What is answered by `DirectRoutes` then never passes the framework's layers, nor its telemetry,
    which looks for a tracer at each request; the gateway has its own (`app/tracing.py`).
    """

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await super().__call__(scope, receive, send)
            return
        if self.middleware_stack is None:
            self.middleware_stack = self.build_middleware_stack()
        scope["app"] = self
        await self.middleware_stack(scope, receive, send)

    def build_middleware_stack(self) -> ASGIApp:
        """Built once, when the first request comes."""
        ours, self.user_middleware = self.user_middleware, []
        app = super().build_middleware_stack()
        for each in reversed(ours):
            app = each.cls(app, *each.args, **each.kwargs)
        return app

    def openapi(self) -> dict[str, Any]:
        """Made when it is first asked for."""
        if self.openapi_schema is None:
            self.openapi_schema = openapi_document(self)
        return self.openapi_schema


def create_app(
    settings: Settings, *, lines: LineWriter | None = None, servers: OpensTools | None = None
) -> FastAPI:
    """The app; its services live from start-up to shutdown.

    Args:
        lines: gets a line a request.
        servers: have tools of agents, in place of the MCP servers of the settings.
    """
    held = HeldBodies()

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        async with open_services(settings, servers) as services, anyio.create_task_group() as tasks:
            app.state.services = services
            app.state.lane = open_lane(services, held, lines)
            within = DirectRoutes(app, routes=_IN_BATCHES, errors=errors)
            tasks.start_soon(kept_going, open_runner(services, within, state_of=app).watch)
            tasks.start_soon(kept_going, open_background(services).watch)
            tasks.start_soon(kept_going, AgentWatch(services).watch)
            yield
            services.stopping.cut()
            tasks.cancel_scope.cancel()

    app = _App(
        title="Foreword",
        version=VERSION,
        lifespan=lifespan,
        # A redirect would go to whatever host the client names; the pages load others' scripts.
        redirect_slashes=False,
        docs_url=None,
        redoc_url=None,
    )
    app.add_middleware(HeadAsGet)  # added first: the innermost
    errors: dict[type[Exception], ErrorHandler] = {
        **dict.fromkeys(_KNOWN, _known_error),
        **dict.fromkeys(_DATABASE_AWAY, _database_away),
        ClientDisconnect: _client_left,
        Exception: _unexpected_error,
    }
    app.add_middleware(DirectRoutes, routes=_DIRECT, errors=errors)
    app.add_middleware(
        Authentication,
        keys=lambda: app.state.services.keys,
        standing=lambda caller: app.state.services.admission.headers(caller),
    )
    app.add_middleware(
        PageGuard,
        is_open=lambda: app.state.services.keys.is_open,
        wire=settings.wire,
    )
    app.add_middleware(
        BodyLimit,
        max_bytes=settings.gateway.max_body_bytes,
        json_bytes=settings.wire.json_bytes,
        held_bytes=settings.wire.held_bytes,
        held=held,
    )
    if settings.wire.origins:
        app.add_middleware(CrossOrigin, origins=settings.wire.origins)
    # Added last: the outermost, so that what others refuse is counted, too.
    app.add_middleware(Observer, services=lambda: app.state.services, lines=lines)
    for module in (
        chat,
        completions,
        embeddings,
        models,
        responses,
        response_cache,
        conversations,
        files,
        batches,
        vector_stores,
        vector_store_files,
        sync,
        collections,
        ops,
        templates,
        agents,
        ui,
        plan,
        replicas,
        report,
        explain,
        shadow,
        tenants,
        keys,
    ):
        app.include_router(module.router)
    for kind in _KNOWN:
        app.add_exception_handler(kind, _known_error)
    for kind in _DATABASE_AWAY:
        app.add_exception_handler(kind, _database_away)
    app.add_exception_handler(RequestValidationError, _invalid_request)
    app.add_exception_handler(HTTPException, _http_error)
    app.add_exception_handler(ClientDisconnect, _client_left)
    app.add_exception_handler(Exception, _unexpected_error)
    return app


async def _known_error(request: Request, error: Exception) -> JSONResponse:
    return error_answer(error, _named(request))


async def _database_away(request: Request, error: Exception) -> JSONResponse:
    problem = str(getattr(error, "orig", None) or error).strip().partition("\n")[0]
    _log.warning("database_away", path=request.url.path, problem=problem)
    return await _known_error(request, DatabaseAwayError(problem))


async def _invalid_request(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)
    return error_answer(invalid(error.errors()[0]), _named(request))


async def _http_error(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)
    kind = "invalid_request_error" if error.status_code < 500 else "server_error"
    message, code, headers = error.detail, None, error.headers
    why = unserved(request.method, request.url.path) if error.status_code in (404, 405) else None
    if why is not None:
        message, code = why, "unknown_url" if error.status_code == 404 else "unknown_method"
    elif error.status_code == 404:
        code = "unknown_url"
        message = (
            "there is nothing at this path; the API is under /v1, GET /openapi.json names all of "
            "it, and /ui is for people"
        )
    elif error.status_code == 405:
        takes = " or ".join(_methods_of(request))
        message, code = f"{request.method} is not served here; it takes {takes}", "unknown_method"
    if error.status_code == 405:
        # GET's routes answer HEAD, too.
        allowed = ", ".join(_methods_of(request)).replace("GET", "GET, HEAD")
        headers = {"Allow": allowed}
    if code is not None:
        saw_error(code)
    body = {"message": message, "type": kind, "param": None, "code": code}
    return JSONResponse({"error": body}, error.status_code, headers=headers)


def _methods_of(request: Request) -> list[str]:
    """All that a path takes: each method is a route of its own."""
    scopes = {method: {**request.scope, "method": method} for method in _METHODS}
    return [
        method
        for method, scope in scopes.items()
        if any(route.matches(scope)[0] is Match.FULL for route in request.app.routes)
    ]


async def _client_left(_request: Request, _error: Exception) -> Response:
    """Nobody reads it: a client that leaves while it sends is no fault of ours."""
    return Response(status_code=499)


async def _unexpected_error(request: Request, error: Exception) -> JSONResponse:
    named = _named(request)
    request_id = named.get("x-request-id")
    _log.error("unexpected_error", request_id=request_id, path=request.url.path, exc_info=error)
    return error_answer(error, named)


def _named(request: Request) -> dict[str, str]:
    """The id of a request that was refused before it was sent; some routes give none."""
    request_id = getattr(request.state, "request_id", None)
    return {} if request_id is None else {"x-request-id": request_id}
