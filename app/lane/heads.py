"""Heads of requests that were parsed, checked and answered before, found again by their bytes.

A client sends the same head with each of its requests, but for the length of the body. What a head
was found to say, and that every check let it pass, needn't be found again. Kept are digests, so
that no key lies in memory for it.
"""

import re
from collections.abc import Mapping
from hashlib import blake2b
from typing import TYPE_CHECKING, NamedTuple

from app.callers import Caller
from app.lane.usual import LONGEST_BYTES

if TYPE_CHECKING:
    from app.lane.desk import Desk

PATH = "/v1/chat/completions"
_START = b"POST /v1/chat/completions HTTP/1.1\r\n"
_END = b"\r\n\r\n"
_LENGTH = re.compile(rb"\r\n[Cc]ontent-[Ll]ength: ([1-9][0-9]{0,5})(?=\r\n)")
_LONGEST = 8192
_DIGEST_BYTES = 16
_MOST = 1024
# What asks for something of the whole way; a body in chunks has no length. Pages of other origins
# are answered with more headers.
_UNUSUAL = frozenset(
    {
        b"content-encoding",
        b"expect",
        b"origin",
        b"transfer-encoding",
        b"upgrade",
        b"x-foreword-deadline-s",
    }
)
_NAMED = b"x-client-request-id"


class CutRequest(NamedTuple):
    """A request by itself: a digest of its head but for the body's length, and where that lies.

    Its body is bytes `body_at <= i < end`, of which not all may have come.
    """

    digest: bytes
    body_at: int
    end: int


class KnownHead:
    """What requests with one head have in common.

    Attributes:
        keys_as_of: the state of the keys that its caller was recognised by.
        client_request_id: the header of that name.
        desk: what is worked out once for all of them.
    """

    __slots__ = ("caller", "client_request_id", "desk", "digest", "keys_as_of")

    def __init__(
        self, digest: bytes, caller: Caller, keys_as_of: int, client_request_id: bytes | None
    ) -> None:
        self.digest = digest
        self.caller = caller
        self.keys_as_of = keys_as_of
        self.client_request_id = client_request_id
        self.desk: Desk | None = None


class KnownHeads:
    """Bounded: where a client's heads never repeat, all are forgotten now and then."""

    def __init__(self) -> None:
        self._known: dict[bytes, KnownHead] = {}

    def __len__(self) -> int:
        return len(self._known)

    def find(self, digest: bytes) -> KnownHead | None:
        """What is known of a head."""
        return self._known.get(digest)

    def learn(self, digest: bytes, scope: Mapping[str, object]) -> None:
        """A request with this head was let in and answered; `scope` is what ASGI had of it."""
        state, headers = scope["state"], scope["headers"]
        assert isinstance(state, dict)
        assert isinstance(headers, list)
        caller, as_of = state.get("caller"), state.get("keys_as_of")
        if not isinstance(caller, Caller) or not isinstance(as_of, int):
            return
        named = None
        for name, value in headers:
            if name in _UNUSUAL or (name == b"content-type" and b"multipart" in value.lower()):
                return
            if name == _NAMED:
                named = value
        if len(self._known) >= _MOST:
            self._known.clear()
        self._known[digest] = KnownHead(digest, caller, as_of, named)

    def forget(self, head: KnownHead) -> None:
        """Its key doesn't hold any more, or holds for somebody else."""
        self._known.pop(head.digest, None)


def cut_request(data: bytes) -> CutRequest | None:
    """A chat request whose head, at least, is in a read, and nothing behind it; None for all else.

    Its body is no longer than what usual requests have.
    """
    if not data.startswith(_START):
        return None
    end = data.find(_END, 0, _LONGEST)
    length = _LENGTH.search(data, 0, end + 2) if end > 0 else None
    if length is None:
        return None
    body_at = end + len(_END)
    size = int(length[1])
    if len(data) > body_at + size or size > LONGEST_BYTES:
        return None
    start, stop = length.span(1)
    digest = blake2b(data[:start], digest_size=_DIGEST_BYTES)
    digest.update(data[stop:end])
    return CutRequest(digest.digest(), body_at, body_at + size)
