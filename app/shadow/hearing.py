"""What the target answers, read as far as it is compared. It may be anybody's: nothing is trusted.

Pure.
"""

from typing import Any

import msgspec

from app.spoken import SpokenAnswer
from app.sse import DONE, EventReader
from cache.usage import CacheUsage, parse_usage
from prompts import Message

# Of an answer, with all that is around its words: so many in any case, and more where the live
# answer was long.
_MOST_BYTES = 2**20
_MOST_TOKEN_BYTES = 2**11


class ShadowFailure(Exception):  # noqa: N818 - it is counted, nobody's request fails
    """The target gave no answer; `reason` is one of few fixed words."""

    def __init__(self, reason: str, *, status: int | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.status = status


class _Function(msgspec.Struct):
    name: str | None = None
    arguments: str | None = None


class _Call(msgspec.Struct):
    index: int | None = None
    function: _Function | None = None

    def as_delta(self, position: int) -> dict[str, Any]:
        function = self.function or _Function()
        return {
            "index": position if self.index is None else self.index,
            "function": {"name": function.name, "arguments": function.arguments},
        }


class _Words(msgspec.Struct):
    content: str | None = None
    reasoning_content: str | None = None
    tool_calls: list[_Call] | None = None


class _Choice(msgspec.Struct):
    index: int = 0
    message: _Words | None = None
    delta: _Words | None = None


class _Part(msgspec.Struct):
    choices: list[_Choice] | None = None
    usage: dict[str, Any] | None = None
    sglext: dict[str, Any] | None = None
    error: Any = None


class Heard:
    """An answer, as far as it has come.

    Args:
        expected_tokens: of the live answer; None where that isn't known.
    """

    def __init__(self, *, streams: bool, expected_tokens: int | None = None) -> None:
        self.ended = False
        """Whether all of it has come; a whole answer's end is the connection's word."""
        self._streams = streams
        self._events = EventReader()
        self._pieces: list[bytes] = []
        self._bytes_left = _MOST_BYTES + _MOST_TOKEN_BYTES * (expected_tokens or 0)
        self._spoken = SpokenAnswer()
        self._usage: dict[str, Any] = {}
        self._sglext: dict[str, Any] = {}
        self._decoder = msgspec.json.Decoder(_Part)

    def feed(self, data: bytes) -> bool:
        """Take what has come; whether the model says something in it.

        Raises:
            ShadowFailure: it is too long, or isn't an answer.
        """
        self._bytes_left -= len(data)
        if self._bytes_left < 0:
            raise ShadowFailure("too_large")
        if not self._streams:
            self._pieces.append(data)
            return False
        says = False
        for each in self._events.feed(data):
            if each == DONE:
                self.ended = True
                break
            says |= self._learn(each)
        return says

    def end(self) -> None:
        """No more comes.

        Raises:
            ShadowFailure: something is missing.
        """
        if not self._streams:
            self._learn(b"".join(self._pieces))
        elif not self.ended:
            raise ShadowFailure("malformed")

    def message(self) -> Message:
        """What was said."""
        return self._spoken.message()

    def usage(self) -> CacheUsage:
        """What was told of tokens."""
        return parse_usage(self._usage, self._sglext)

    def _learn(self, data: bytes) -> bool:
        try:
            part = self._decoder.decode(data)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise ShadowFailure("malformed") from error
        if part.error is not None:
            raise ShadowFailure("error")
        self._usage = part.usage or self._usage
        self._sglext |= part.sglext or {}
        says = False
        for choice in part.choices or ():
            words = choice.delta or choice.message
            if choice.index == 0 and words is not None:
                self._spoken.add(_delta(words))
                says |= bool(words.content or words.reasoning_content or words.tool_calls)
        return says


def _delta(words: _Words) -> dict[str, Any]:
    return {
        "content": words.content,
        "reasoning_content": words.reasoning_content,
        "tool_calls": [call.as_delta(n) for n, call in enumerate(words.tool_calls or ())],
    }
