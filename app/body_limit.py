"""Bounds on request bodies, kept while they arrive."""

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.errors import BodiesFullError, BodyTooLargeError, GatewayError
from app.refusing import error_answer


class HeldBodies:
    """The bytes of the bodies of all requests that aren't answered yet."""

    __slots__ = ("bytes",)

    def __init__(self) -> None:
        self.bytes = 0


class BodyLimit:
    """Refuses a body as soon as it is known to be too large, before it is read if it says so.

    Args:
        max_bytes: of a body with files.
        json_bytes: of all others, which become values in memory, many times as large.
        held_bytes: of the bodies of all requests that aren't answered yet.
        held: those; the lane counts its own there, too.
    """

    def __init__(
        self, app: ASGIApp, *, max_bytes: int, json_bytes: int, held_bytes: int, held: HeldBodies
    ) -> None:
        self._app = app
        self._max_bytes = max_bytes
        self._json_bytes = json_bytes
        self._held_bytes = held_bytes
        self._held = held

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """ASGI."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        limit, setting, declared = self._limit_of(scope)
        if declared > limit:
            await _refuse(BodyTooLargeError(limit, setting), scope, receive, send)
            return
        if self._held.bytes + declared > self._held_bytes:
            await _refuse(BodiesFullError(self._held_bytes), scope, receive, send)
            return
        received = 0

        async def counted() -> Message:
            nonlocal received
            message = await receive()
            size = len(message.get("body", b""))
            received += size
            self._held.bytes += size
            if received > limit:
                raise BodyTooLargeError(limit, setting)
            if self._held.bytes > self._held_bytes:
                raise BodiesFullError(self._held_bytes)
            return message

        try:
            await self._app(scope, counted, send)
        finally:
            self._held.bytes -= received

    def _limit_of(self, scope: Scope) -> tuple[int, str, int]:
        """The most bytes that this body may have, by which setting, and how many it says it has."""
        declared, files = 0, (self._max_bytes, "GATEWAY__MAX_BODY_BYTES")
        # A body without files may not be larger than one with them.
        limit, setting = min((self._json_bytes, "WIRE__JSON_BYTES"), files)
        for name, value in scope["headers"]:
            if name == b"content-length" and value.isdigit():
                declared = int(value)
            elif name == b"content-type" and value.lower().startswith(b"multipart/"):
                limit, setting = files
        return limit, setting, declared


async def _refuse(error: GatewayError, scope: Scope, receive: Receive, send: Send) -> None:
    await error_answer(error)(scope, receive, send)
