"""Other people's web pages that the operator lists: their browsers may ask, and read the answers.

A browser asks first whether a page of another origin may send what it wants to (a preflight, which
never has a key), and lets the page read only answers that name its origin. Keys travel in
Authorization, never in cookies: no answer allows credentials.

Source: https://fetch.spec.whatwg.org/#http-cors-protocol
"""

import re
from collections.abc import Awaitable, Iterable, Iterator, Sequence

from starlette.types import ASGIApp, Message, Receive, Scope, Send

# What scripts may read of an answer's head, beside what browsers show anyway.
EXPOSED = (
    "content-disposition",
    "retry-after",
    "x-foreword-response-cache",
    "x-ratelimit-limit-requests",
    "x-ratelimit-limit-tokens",
    "x-ratelimit-remaining-requests",
    "x-ratelimit-remaining-tokens",
    "x-ratelimit-reset-requests",
    "x-ratelimit-reset-tokens",
    "x-request-id",
)
# Those that SDKs send; whatever else a browser asks for is allowed too, since any other client may
# send it.
_USUAL_HEADERS = ("authorization", "content-type", "idempotency-key", "x-client-request-id")
_METHODS = b"GET, HEAD, POST, PUT, PATCH, DELETE"
# Two hours, the longest that Chromium remembers it.
_MAX_AGE = b"7200"
_NAME = re.compile(r"[a-z0-9!#$%&'*+.^_`|~-]{1,128}")
_VARY = (b"vary", b"Origin")
_TOLD = (b"access-control-expose-headers", ", ".join(EXPOSED).encode())


class CrossOrigin:
    """ASGI middleware, outside of what refuses: refusals are to be read, too.

    Args:
        origins: as browsers send them.
    """

    def __init__(self, app: ASGIApp, *, origins: Iterable[str]) -> None:
        self._app = app
        self._origins = frozenset(origin.encode() for origin in origins)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """ASGI."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        origin = _header(scope, b"origin")
        if origin is not None and origin.lower() in self._origins:
            named = (b"access-control-allow-origin", origin)
            if _is_preflight(scope):
                headers = [named, *_preflight_headers(scope)]
                await send({"type": "http.response.start", "status": 204, "headers": headers})
                await send({"type": "http.response.body", "body": b""})
                return
            send = _adding(send, (named, _VARY, _TOLD))
        elif origin is not None or scope["method"] in ("GET", "HEAD"):
            # Caches keep what was asked without an origin, for pages of all of them.
            send = _adding(send, (_VARY,))
        await self._app(scope, receive, send)


def _adding(send: Send, headers: Sequence[tuple[bytes, bytes]]) -> Send:
    # Not a coroutine: a stream's every chunk may come by here.
    def told(message: Message) -> Awaitable[None]:
        if message["type"] == "http.response.start":
            message["headers"] = [*message.get("headers", ()), *headers]
        return send(message)

    return told


def _is_preflight(scope: Scope) -> bool:
    return scope["method"] == "OPTIONS" and (
        _header(scope, b"access-control-request-method") is not None
    )


def _preflight_headers(scope: Scope) -> Iterator[tuple[bytes, bytes]]:
    asked = (_header(scope, b"access-control-request-headers") or b"").decode("latin-1").lower()
    names = [name for part in asked.split(",") if _NAME.fullmatch(name := part.strip())]
    allowed = ", ".join(dict.fromkeys((*_USUAL_HEADERS, *names)))
    yield b"access-control-allow-methods", _METHODS
    yield b"access-control-allow-headers", allowed.encode()
    yield b"access-control-max-age", _MAX_AGE
    yield b"vary", b"Origin, Access-Control-Request-Method, Access-Control-Request-Headers"
    if _header(scope, b"access-control-request-private-network") == b"true":
        # The page is from the internet, and the gateway on this machine or its network.
        yield b"access-control-allow-private-network", b"true"


def _header(scope: Scope, wanted: bytes) -> bytes | None:
    return next((value for name, value in scope["headers"] if name == wanted), None)
