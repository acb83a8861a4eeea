"""A bound on request bodies, kept while they arrive."""

from fastapi.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.errors import BodyTooLargeError
from app.problems import error_body, problem_of


class BodyLimit:
    """Refuses a body as soon as it is known to be too large, before it is read if it says so."""

    def __init__(self, app: ASGIApp, *, max_bytes: int) -> None:
        self._app = app
        self._max_bytes = max_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """ASGI."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        declared = dict(scope["headers"]).get(b"content-length", b"0")
        if declared.isdigit() and int(declared) > self._max_bytes:
            error = BodyTooLargeError(self._max_bytes)
            answer = JSONResponse(error_body(error), problem_of(error).status)
            await answer(scope, receive, send)
            return
        received = 0

        async def counted() -> Message:
            nonlocal received
            message = await receive()
            received += len(message.get("body", b""))
            if received > self._max_bytes:
                raise BodyTooLargeError(self._max_bytes)
            return message

        await self._app(scope, counted, send)
