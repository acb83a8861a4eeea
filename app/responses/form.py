"""A response as an HTTP body: one JSON object, or server-sent events."""

import time
from collections.abc import Iterable

import orjson

from app.accounts import JSONObject
from app.errors import EngineError, NotStoredError
from app.problems import problem_of
from app.responses.writer import Events, ResponseWriter, as_part
from app.sse import named_event


class ResponsesForm:
    """How the Responses API spells an answer that comes in chat completions' shape."""

    def __init__(self, writer: ResponseWriter) -> None:
        self._writer = writer

    @property
    def response(self) -> JSONObject:
        """The response as it stands."""
        return self._writer.response

    def whole(self, answer: JSONObject) -> JSONObject:
        """A whole answer as the response."""
        writer = self._writer
        for events in (writer.begin(), writer.part(as_part(answer)), writer.end(int(time.time()))):
            for _ in events:
                pass
        return writer.response

    def begin(self) -> bytes:
        """The first events, up to the search's."""
        return self.spelled(self._writer.begin())

    def part(self, part: JSONObject) -> bytes:
        """The events of a part."""
        return self.spelled(self._writer.part(part))

    def end(self) -> bytes:
        """The last events."""
        return self.spelled(self._writer.end(int(time.time())))

    def failed(self, error: EngineError | NotStoredError) -> bytes:
        """The events of an answer that breaks off."""
        return self.spelled(self._writer.failed(str(error), problem_of(error).code))

    def spelled(self, events: Events) -> bytes:
        """Events as they are sent."""
        return spelled(events)


def spelled(events: Iterable[JSONObject]) -> bytes:
    """Events as server-sent ones."""
    return b"".join(named_event(event["type"], orjson.dumps(event)) for event in events)
