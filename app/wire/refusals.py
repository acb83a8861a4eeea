"""Answers to what never becomes a request: written to the socket as they are.

Their bodies are OpenAI's, like those of all other errors. They are no exceptions of ours: nothing
above the protocol ever sees them.
"""

from dataclasses import dataclass
from http import HTTPStatus

import orjson


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a connection's bytes aren't served; `code` also counts them."""

    status: int
    code: str
    message: str
    kind: str = "invalid_request_error"

    def answer(self) -> bytes:
        """The whole HTTP response."""
        error = {"message": self.message, "type": self.kind, "param": None, "code": self.code}
        body = orjson.dumps({"error": error})
        head = [
            f"HTTP/1.1 {self.status} {HTTPStatus(self.status).phrase}",
            "content-type: application/json",
            f"content-length: {len(body)}",
            "connection: close",
        ]
        if self.status == HTTPStatus.SERVICE_UNAVAILABLE:
            head.append("retry-after: 1")
        return "\r\n".join([*head, "", ""]).encode() + body


MALFORMED = Refusal(400, "malformed_http", "these bytes are no HTTP/1.1 request")
HOST = Refusal(400, "malformed_http", "a request has exactly one Host header")
REPEATED = Refusal(400, "malformed_http", "Host, Authorization and Content-Type come only once")
VERSION = Refusal(505, "http_version", "this server speaks HTTP/1.1 and HTTP/1.0")
UPGRADE = Refusal(
    400, "upgrade_refused", "nothing is upgraded here; send the request without the Upgrade header"
)
TARGET = Refusal(414, "target_too_long", "the request's path and query are too long")
NUL = Refusal(400, "malformed_http", "the request's path and query can't hold a NUL character")
HEAD = Refusal(431, "headers_too_large", "the request has too many or too large headers")
HEAD_TIMEOUT = Refusal(408, "headers_too_slow", "the request's headers took too long to arrive")
BODY_TIMEOUT = Refusal(408, "body_too_slow", "the request's body took too long to arrive")
# Counted, and never told: the last answer says that the connection is closed.
PIPELINED = Refusal(400, "pipelined_too_many", "too many requests wait on this connection")
FULL = Refusal(503, "too_many_connections", "too many connections are open; retry", "server_error")
