"""The outermost layer: each HTTP request is counted, logged in one line, and traced if wanted.

The line says what was asked and how it went, never with what words: no prompt, no answer, no query
string, no file name.
"""

import asyncio
import os
import time
from collections.abc import Awaitable, Callable
from typing import Any

import structlog
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.callers import Caller
from app.errors import GatewayStoppingError
from app.hot.chunks import writer_of
from app.log import LineWriter
from app.observation import OBSERVED, Observation
from app.refusing import error_answer
from app.services import Services
from cache.rows import LedgerRow

# Answered before any router sees them.
_RAW_ROUTES = frozenset({"/v1/chat/completions", "/v1/completions", "/v1/responses"})
# Asked every few seconds by machines; worth a line when the answer isn't good.
_PROBES = frozenset({"/livez", "/readyz", "/metrics"})
_METHODS = frozenset({"GET", "POST", "DELETE", "PUT", "PATCH", "HEAD", "OPTIONS"})
_CLIENT_LEFT = "499"
_ROOM = 128

_log = structlog.get_logger()


class Observer:
    """ASGI middleware.

    Args:
        services: gives the services; they are opened after the middleware is made.
        lines: takes the line of each request; None: the usual logger does, at ten times the cost.
    """

    def __init__(
        self, app: ASGIApp, *, services: Callable[[], Services], lines: LineWriter | None = None
    ) -> None:
        self._app = app
        self._services = services
        self._lines = lines

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """ASGI."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        services, observation = self._services(), Observation()
        if services.tracing is not None:
            observation.trace = services.tracing.begin(scope)
        state: dict[str, Any] = scope.setdefault("state", {})
        observation.request_id = state.setdefault("request_id", f"req_{os.urandom(12).hex()}")
        status: int | None = None
        sent = 0

        # Not a coroutine: a stream's every chunk comes by here.
        def watched(message: Message) -> Awaitable[None]:
            nonlocal status, sent
            if message["type"] == "http.response.body":
                sent += len(message.get("body", b""))
            elif message["type"] == "http.response.start":
                status = message["status"]
                observation.request_id = _name(message, state["request_id"])
            return send(message)

        token = OBSERVED.set(observation)
        try:
            await self._app(scope, receive, watched)
        except asyncio.CancelledError:
            # Only who serves us cancels a request as a whole: it stops, and waits no longer.
            if status is not None:
                raise
            await error_answer(GatewayStoppingError())(scope, receive, watched)
        except Exception:
            status = status or 500
            raise
        finally:
            OBSERVED.reset(token)
            if (writer := writer_of(scope)) is not None:
                sent += writer.sent_bytes
            request_ended(
                services,
                self._lines,
                observation,
                method=scope["method"],
                route=_route(scope),
                caller=state.get("caller"),
                client_request_id=_client_request_id(scope),
                received=_declared(scope),
                sent=sent,
                status=status,
            )


def request_ended(
    services: Services,
    lines: LineWriter | None,
    seen: Observation,
    *,
    method: str,
    route: str,
    caller: Caller | None,
    client_request_id: bytes | None,
    received: int,
    sent: int,
    status: int | None,
) -> None:
    """Count an HTTP request that has ended, and write its line."""
    seconds = time.perf_counter() - seen.started
    code = _CLIENT_LEFT if status is None else str(status)
    services.metrics.answered(
        route,
        method if method in _METHODS else "other",
        code,
        received=received,
        sent=sent,
        seconds=seconds,
    )
    if seen.error_code is not None and seen.row is None and route in _RAW_ROUTES:
        services.metrics.refused(seen.error_code)
    if seen.trace is not None:
        seen.trace.end(route=route, status=code)
    if not services.settings.log.requests or (route in _PROBES and code == "200"):
        return
    facts: dict[str, object] = {
        "request_id": seen.request_id,
        "method": method[:_ROOM],
        "route": route,
        "code": int(code),
        "seconds": round(seconds, 6),
        "sent_bytes": sent,
    }
    if caller is not None:
        facts["tenant"], facts["key_id"] = caller.tenant, caller.key_id
    if client_request_id is not None:
        facts["client_request_id"] = client_request_id[:_ROOM].decode("ascii", "replace")
    if seen.trace is not None:
        facts["trace_id"] = seen.trace.trace_id
    if seen.row is not None:
        facts |= _row_facts(seen.row)
    elif seen.error_code is not None:
        facts["error_code"] = seen.error_code
    if lines is None:
        _log.info("request", **facts)
    else:
        lines.write({"timestamp": time.time(), "level": "info", "event": "request"} | facts)


def _name(message: Message, request_id: str) -> str:
    """The id in an answer's headers; one that has none is given it."""
    headers = message.setdefault("headers", [])
    for name, value in headers:
        if name == b"x-request-id":
            return str(value, "latin-1")
    message["headers"] = [*headers, (b"x-request-id", request_id.encode())]
    return request_id


def _route(scope: Scope) -> str:
    """The route's pattern: what a client puts into a path is no label."""
    route = scope.get("route")
    path = getattr(route, "path", None)
    if path is not None:
        return str(path)
    return scope["path"] if scope["path"] in _RAW_ROUTES else "unmatched"


def _declared(scope: Scope) -> int:
    for name, value in scope["headers"]:
        if name == b"content-length":
            return int(value) if value.isdigit() and len(value) < 16 else 0
    return 0


def _client_request_id(scope: Scope) -> bytes | None:
    found = None
    for name, value in scope["headers"]:
        if name == b"x-client-request-id":
            found = value
    return found


def _row_facts(row: LedgerRow) -> dict[str, object]:
    """What the log has of a model request; the ledger has the rest."""
    return {
        "status": row.status.value,
        "error_code": row.error_code,
        "tenant": row.tenant,
        "template": row.template,
        "collection": row.collection,
        "mode": row.mode,
        "replica": row.replica,
        "route_reason": row.route_reason,
        "prompt_tokens": row.prompt_tokens,
        "ideal_tokens": row.ideal_tokens,
        "cached_tokens": row.cached_tokens,
        "completion_tokens": row.completion_tokens,
        "verdict": row.verdict,
        "ttft_s": row.ttft_s,
        "e2e_s": row.e2e_s,
    }
