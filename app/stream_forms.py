"""How a streamed answer is spelled: as chat completions' chunks, or as another API's events."""

from typing import Protocol

import orjson

from app.accounts import JSONObject
from app.errors import AnswerError
from app.problems import error_body
from app.sse import DONE, event


class StreamForm(Protocol):
    """Makes server-sent events of an answer's parts, which have chat completions' shape."""

    def begin(self) -> bytes:
        """What comes before the first part."""
        ...

    def part(self, part: JSONObject) -> bytes:
        """What a part becomes."""
        ...

    def end(self) -> bytes:
        """What comes after the last part."""
        ...

    def failed(self, error: AnswerError) -> bytes:
        """How a stream that breaks off ends."""
        ...


class ChatForm:
    """Chat completions' own form: each part is one event."""

    def begin(self) -> bytes:
        """Nothing: the first event is the engine's first part."""
        return b""

    def part(self, part: JSONObject) -> bytes:
        """The part as it is."""
        return event(orjson.dumps(part))

    def end(self) -> bytes:
        """OpenAI's last word."""
        return event(DONE)

    def failed(self, error: AnswerError) -> bytes:
        """The error as an event of its own."""
        return event(orjson.dumps(error_body(error)))
