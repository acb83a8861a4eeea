"""Routes that are answered before the framework's own layers: exception and exit-stack middleware,
the walk through all routes, and the dependency solver, none of which they use.

The same functions stay registered with the framework, for its OpenAPI document and its 405s.
"""

from collections.abc import Awaitable, Callable, Mapping

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

Endpoint = Callable[[Request], Awaitable[Response]]
ErrorHandler = Callable[[Request, Exception], Awaitable[Response]]


class _BodyRequest(Request):
    """Reads its body without an asynchronous generator, each of which the event loop keeps."""

    _whole: bytes | None = None

    async def body(self) -> bytes:
        """The whole body.

        Raises:
            ClientDisconnect: the client left before it had sent all.
        """
        if self._whole is not None:
            return self._whole
        parts: list[bytes] = []
        more = True
        while more:
            message = await self.receive()
            if message["type"] == "http.disconnect":
                raise ClientDisconnect
            parts.append(message.get("body", b""))
            more = message.get("more_body", False)
        self._whole = parts[0] if len(parts) == 1 else b"".join(parts)
        return self._whole


class DirectRoutes:
    """ASGI middleware, to be the innermost one.

    Args:
        routes: what answers a POST, by path.
        errors: what makes an answer of an error, by its type; others are raised.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        routes: Mapping[str, Endpoint],
        errors: Mapping[type[Exception], ErrorHandler],
    ) -> None:
        self._app = app
        self._routes = dict(routes)
        self._errors = dict(errors)
        self._kinds = tuple(errors)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """ASGI."""
        endpoint = None
        if scope["type"] == "http" and scope["method"] == "POST":
            endpoint = self._routes.get(scope["path"])
        if endpoint is None:
            await self._app(scope, receive, send)
            return
        begun = False

        def noted(message: Message) -> Awaitable[None]:
            nonlocal begun
            begun = True
            return send(message)

        request = _BodyRequest(scope, receive, send)
        try:
            response = await endpoint(request)
            await response(scope, receive, noted)
        except self._kinds as error:
            if begun:
                raise
            refusal = await self._handler(error)(request, error)
            await refusal(scope, receive, send)

    def _handler(self, error: Exception) -> ErrorHandler:
        """The nearest one, as the framework would choose."""
        return next(self._errors[kind] for kind in type(error).__mro__ if kind in self._errors)
