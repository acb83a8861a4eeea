"""HEAD wherever there is a GET: the same head, and no body."""

from starlette.types import ASGIApp, Receive, Scope, Send


class HeadAsGet:
    """ASGI middleware; the connection sends no body, since it knows the method that was asked."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """ASGI."""
        if scope["type"] != "http" or scope["method"] != "HEAD":
            await self._app(scope, receive, send)
            return
        inner: Scope = {**scope, "method": "GET"}
        try:
            await self._app(inner, receive, send)
        finally:
            if "route" in inner:  # for whoever counts requests
                scope["route"] = inner["route"]
