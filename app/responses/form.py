"""A response as an HTTP body: one JSON object, or server-sent events."""

import time
from collections.abc import Iterable

import orjson

from app.accounts import JSONObject
from app.errors import AnswerError
from app.problems import problem_of, sentence_of
from app.refusing import noted
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

    def failed(self, error: AnswerError) -> bytes:
        """The events of an answer that breaks off."""
        return self.spelled(self._writer.failed(sentence_of(error), problem_of(error).code))

    def spelled(self, events: Events) -> bytes:
        """Events as they are sent."""
        return spelled(events)


def broken_off(error: Exception, number: int) -> bytes:
    """The last event of a stream that ends before its response does.

    Args:
        number: the event's, in the stream's sequence.
    """
    noted(error)
    told = {"message": sentence_of(error), "code": problem_of(error).code, "param": None}
    return spelled([{"type": "error", "sequence_number": number, **told}])


def spelled(events: Iterable[JSONObject]) -> bytes:
    """Events as server-sent ones."""
    return b"".join(named_event(event["type"], orjson.dumps(event)) for event in events)
