"""`create_app(settings)`: the gateway as an ASGI app."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import structlog
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from app.body_limit import BodyLimit
from app.errors import GatewayError, InvalidRequestError
from app.problems import error_body, problem_of
from app.routes import (
    chat,
    collections,
    explain,
    files,
    ops,
    plan,
    report,
    responses,
    sync,
    tenants,
    vector_store_files,
    vector_stores,
)
from app.services import open_services
from app.settings import Settings
from app.version import VERSION
from cache.errors import CacheError
from prompts import PromptError
from retrieval import RetrievalError

_log = structlog.get_logger()


def create_app(settings: Settings) -> FastAPI:
    """The app; its services live from start-up to shutdown."""

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        async with open_services(settings) as services:
            app.state.services = services
            yield

    app = FastAPI(title="Foreword", version=VERSION, lifespan=lifespan)
    app.add_middleware(BodyLimit, max_bytes=settings.gateway.max_body_bytes)
    for module in (
        chat,
        responses,
        files,
        vector_stores,
        vector_store_files,
        sync,
        collections,
        ops,
        plan,
        report,
        explain,
        tenants,
    ):
        app.include_router(module.router)
    for kind in (GatewayError, PromptError, CacheError, RetrievalError):
        app.add_exception_handler(kind, _known_error)
    app.add_exception_handler(RequestValidationError, _invalid_request)
    app.add_exception_handler(HTTPException, _http_error)
    app.add_exception_handler(Exception, _unexpected_error)
    return app


async def _known_error(request: Request, error: Exception) -> JSONResponse:
    return JSONResponse(error_body(error), problem_of(error).status, headers=_named(request))


async def _invalid_request(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    param = ".".join(str(part) for part in first["loc"] if part not in ("body", "query", "path"))
    problem = InvalidRequestError(f"{param}: {first['msg']}", param=param or None)
    return JSONResponse(error_body(problem), 400, headers=_named(request))


async def _http_error(_request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)
    kind = "invalid_request_error" if error.status_code < 500 else "server_error"
    body = {"message": error.detail, "type": kind, "param": None, "code": None}
    return JSONResponse({"error": body}, error.status_code, headers=error.headers)


async def _unexpected_error(request: Request, error: Exception) -> JSONResponse:
    _log.error("unexpected_error", path=request.url.path, exc_info=error)
    return JSONResponse(error_body(error), problem_of(error).status, headers=_named(request))


def _named(request: Request) -> dict[str, str]:
    """The id of a request that was refused before it was sent; some routes give none."""
    request_id = getattr(request.state, "request_id", None)
    return {} if request_id is None else {"x-request-id": request_id}
