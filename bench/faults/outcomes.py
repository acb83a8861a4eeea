"""What became of one request, as its client saw it. Pure."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import orjson

# The admission queue, a refused connection, the first byte elsewhere, and some room.
LIMIT_S = 70.0
"""An error after a longer silence comes too late; see `world.gateway_environment`."""
HUNG_S = 90.0
"""A request of which nothing was heard for so long hangs."""

_ERROR_FIELDS = {"message", "type", "param", "code"}


class Kind(StrEnum):
    """What is asked."""

    CHAT = "chat"
    CHAT_STREAM = "chat, streamed"
    SEARCH = "response with file_search"
    SEARCH_STREAM = "response with file_search, streamed"

    @property
    def streams(self) -> bool:
        return self in (Kind.CHAT_STREAM, Kind.SEARCH_STREAM)


class Outcome(StrEnum):
    """How it ended."""

    ANSWERED = "answered"
    REFUSED = "refused"
    """An error's status with OpenAI's body, before anything of an answer."""
    BROKEN = "broken"
    """A stream that said with an event of its own that it can't go on."""
    WRONG = "wrong"
    """An answer that is neither a whole one nor an error as it should be."""
    LOST = "lost"
    """The connection ended with neither."""
    HUNG = "hung"


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """One request that has ended; times by the monotonic clock.

    Attributes:
        status: 0 where no head came.
        code: the error's; None for answers.
        said: the end of what came, where that is no answer.
        silent_s: the longest time in which nothing of it came, from its beginning to its end.
    """

    kind: Kind
    tenant: str
    began: float
    ended: float
    outcome: Outcome
    status: int = 0
    code: str | None = None
    request_id: str | None = None
    said: str = ""
    silent_s: float = 0.0

    @property
    def took_s(self) -> float:
        return self.ended - self.began


@dataclass(frozen=True, slots=True)
class Read:
    """What a body says."""

    outcome: Outcome
    code: str | None = None


def read_body(kind: Kind, status: int, body: bytes) -> Read:
    """Whether a body that came to its end is an answer, an error, or nothing of the kind."""
    if status != 200:
        return _refusal(body)
    if kind is Kind.CHAT_STREAM:
        return _chat_stream(body)
    if kind is Kind.SEARCH_STREAM:
        return _response_stream(body)
    answer = _json(body)
    whole = "choices" if kind is Kind.CHAT else "output"
    return Read(Outcome.ANSWERED if answer is not None and whole in answer else Outcome.WRONG)


def _refusal(body: bytes) -> Read:
    error = (_json(body) or {}).get("error")
    if not isinstance(error, dict) or set(error) != _ERROR_FIELDS or not error["message"]:
        return Read(Outcome.WRONG)
    return Read(Outcome.REFUSED, str(error["code"]))


def _chat_stream(body: bytes) -> Read:
    for data in _events(body):
        if data == b"[DONE]":
            return Read(Outcome.ANSWERED)
        part = _json(data)
        if part is None:
            return Read(Outcome.WRONG)
        if "error" in part:
            return Read(Outcome.BROKEN, str(part["error"].get("code")))
    return Read(Outcome.LOST)


def _response_stream(body: bytes) -> Read:
    for data in _events(body):
        event = _json(data)
        if event is None:
            return Read(Outcome.WRONG)
        if event.get("type") in ("response.completed", "response.incomplete"):
            return Read(Outcome.ANSWERED)
        if event.get("type") == "response.failed":
            return Read(Outcome.BROKEN, str((event["response"].get("error") or {}).get("code")))
        if event.get("type") == "error":
            return Read(Outcome.BROKEN, str(event.get("code")))
    return Read(Outcome.LOST)


def _events(body: bytes) -> list[bytes]:
    return [line[6:] for line in body.split(b"\n") if line.startswith(b"data: ")]


def _json(raw: bytes) -> dict[str, Any] | None:
    try:
        value = orjson.loads(raw)
    except orjson.JSONDecodeError:
        return None
    return value if isinstance(value, dict) else None
