"""A server behind a URL: the SDK's streamable HTTP, over a client that goes where it may only.

Each request's name is looked up and its addresses are checked, redirects' too, and the connection
is made to the address that was checked. What a server answers is bounded before anything reads it.
A request that fails is answered with an error of ours (`codes.py`) instead of an exception, which
would end the requests of everybody else on the session; and the error tells whether the server can
have seen it.
"""

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import httpx2
from mcp.client.streamable_http import streamable_http_client

from app.agents.mcp.codes import LOST, NOT_SENT, REFUSED, SESSION_GONE, TOO_LARGE
from app.errors import WebhookRefusedError
from app.webhooks.addresses import find_target

_SESSION = "mcp-session-id"
_CONNECT_S = 10.0
_NOT_SENT = (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout)


@asynccontextmanager
async def connect_http(
    url: str, *, headers: Mapping[str, str], allow_private: bool, max_bytes: int, silence_s: float
) -> AsyncIterator[Any]:
    """The streams of a session with a server, for as long as the context is open."""
    async with (
        httpx2.AsyncClient(
            # Compressed, few bytes could become as many as one likes.
            headers={**headers, "accept-encoding": "identity"},
            timeout=httpx2.Timeout(silence_s, connect=_CONNECT_S, pool=_CONNECT_S),
            transport=GuardedTransport(allow_private=allow_private, max_bytes=max_bytes),
            trust_env=False,
        ) as client,
        streamable_http_client(url, http_client=client, max_sse_event_size=max_bytes) as streams,
    ):
        yield streams


class GuardedTransport(httpx2.AsyncBaseTransport):
    """Connects to checked addresses, bounds answers, and turns failures to answers."""

    def __init__(self, *, allow_private: bool, max_bytes: int) -> None:
        self._allow_private = allow_private
        self._max_bytes = max_bytes
        self._inner = httpx2.AsyncHTTPTransport(limits=httpx2.Limits(max_connections=64))

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        try:
            response = await self._inner.handle_async_request(await self._checked(request))
        except WebhookRefusedError as error:
            return _failed(request, NOT_SENT, error.problem)
        except _NOT_SENT as error:
            return _failed(request, NOT_SENT, f"no connection: {error}")
        except httpx2.TransportError as error:
            return _failed(request, LOST, f"the connection broke: {type(error).__name__}")
        return await self._bounded(request, response)

    async def aclose(self) -> None:
        await self._inner.aclose()

    async def _checked(self, request: httpx2.Request) -> httpx2.Request:
        """The request, to the address that was looked at.

        Raises:
            WebhookRefusedError: it mayn't go there.
        """
        target = await find_target(str(request.url), allow_private=self._allow_private)
        extensions = dict(request.extensions)
        if target.name is not None:
            extensions["sni_hostname"] = target.name
        return httpx2.Request(
            request.method,
            target.url,
            headers={**dict(request.headers), "host": target.host},
            stream=request.stream,
            extensions=extensions,
        )

    async def _bounded(self, request: httpx2.Request, response: httpx2.Response) -> httpx2.Response:
        if response.status_code == 404 and _SESSION in request.headers:
            await response.aclose()
            return _failed(request, SESSION_GONE, "it doesn't know the session any more")
        if response.headers.get("content-encoding", "identity") != "identity":
            await response.aclose()
            return _failed(request, TOO_LARGE, "something compressed, which isn't taken")
        kind = response.headers.get("content-type", "")
        if response.is_success and kind.lower().startswith("text/event-stream"):
            return response  # the SDK bounds each event
        return await self._whole(request, response)

    async def _whole(self, request: httpx2.Request, response: httpx2.Response) -> httpx2.Response:
        body = bytearray()
        try:
            async for chunk in response.stream:  # type: ignore[union-attr]
                body += chunk
                if len(body) > self._max_bytes:
                    return _failed(
                        request,
                        TOO_LARGE,
                        f"more than the {self._max_bytes:,} bytes that are taken",
                    )
        except httpx2.TransportError as error:
            return _failed(request, LOST, f"the connection broke: {type(error).__name__}")
        finally:
            await response.aclose()
        if response.is_error and not _is_rpc_error(bytes(body)):
            code = REFUSED if response.is_client_error else LOST
            return _failed(request, code, f"HTTP status {response.status_code}")
        return httpx2.Response(
            response.status_code, headers=response.headers, content=bytes(body), request=request
        )


def _failed(request: httpx2.Request, code: int, problem: str) -> httpx2.Response:
    """What the SDK takes as the server's own error, for this request alone."""
    body = {"jsonrpc": "2.0", "id": None, "error": {"code": code, "message": problem}}
    return httpx2.Response(
        503,
        headers={"content-type": "application/json"},
        content=json.dumps(body).encode(),
        request=request,
    )


def _is_rpc_error(body: bytes) -> bool:
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        return False
    return isinstance(value, dict) and isinstance(value.get("error"), dict)
