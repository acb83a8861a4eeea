"""A batch's request goes the way that any request goes, but for the socket.

It is given to the same functions as an HTTP request of its tenant's would be: salt, template,
accounting, ledger and limits are theirs. Its class is background, so that others go before it.
"""

from collections.abc import Mapping

import anyio
from starlette.types import ASGIApp, Message, Scope

from app.admission.keyring import KeyRing
from app.batches.records import LineAnswer
from app.callers import Caller, Priority

# No engine works on them.
_WITHOUT_TURN = ("/v1/embeddings",)


class LineSender:
    """Sends requests to the gateway's own app.

    Args:
        app: answers them; the innermost part, which asks for no key.
        scope: what the app wants to find in each request.
    """

    def __init__(self, app: ASGIApp, *, keys: KeyRing, scope: Mapping[str, object]) -> None:
        self._app = app
        self._keys = keys
        self._scope = dict(scope)
        self._under_way: list[Scope] = []

    @property
    def admitted(self) -> int:
        """Requests from here that have an engine's turn."""
        return sum("ticket" in scope["state"] for scope in self._under_way)

    async def send(self, path: str, body: bytes, *, tenant: str) -> LineAnswer:
        """The answer to one request."""
        caller = Caller(
            tenant=tenant, ceiling=Priority.BACKGROUND, limits=self._keys.limits_of(tenant)
        )
        scope: Scope = {**self._scope, **_scope(path, body, caller)}
        sent: list[Message] = []
        given = False

        async def receive() -> Message:
            nonlocal given
            if given:  # nobody leaves
                await anyio.sleep_forever()
            given = True
            return {"type": "http.request", "body": body, "more_body": False}

        async def send(message: Message) -> None:
            sent.append(message)

        if path not in _WITHOUT_TURN:
            self._under_way.append(scope)
        try:
            await self._app(scope, receive, send)
        finally:
            if scope in self._under_way:
                self._under_way.remove(scope)
            ticket = scope["state"].get("ticket")
            if ticket is not None:
                ticket.close()
        return _answer(sent)


def _scope(path: str, body: bytes, caller: Caller) -> Scope:
    length = str(len(body)).encode()
    return {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": "POST",
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "root_path": "",
        "query_string": b"",
        "headers": [(b"content-type", b"application/json"), (b"content-length", length)],
        "client": None,
        "server": None,
        "state": {"caller": caller},
    }


def _answer(sent: list[Message]) -> LineAnswer:
    start = sent[0]
    headers = dict(start["headers"])
    retry, request_id = headers.get(b"retry-after"), headers.get(b"x-request-id")
    return LineAnswer(
        status=start["status"],
        request_id=None if request_id is None else request_id.decode(),
        body=b"".join(message.get("body", b"") for message in sent[1:]),
        retry_after_s=None if retry is None else float(retry),
    )
