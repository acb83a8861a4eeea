"""The engine's answers as clients see them, whole or in parts."""

import time

import orjson

from app.accounts import Account, JSONObject
from app.completions import AnswerRequest
from app.engine_words import refusal_in
from app.errors import EngineProtocolError, EngineResponseError
from app.hot.usual_parts import UsualParts
from app.sse import DONE, EventReader
from app.stream_forms import ChatForm, StreamForm
from app.upstream import UpstreamResponse

_ENGINE_ONLY = ("sglext", "metadata")


async def read_whole(url: str, response: UpstreamResponse) -> JSONObject:
    """The JSON object of a whole answer; closes the response.

    Raises:
        EngineError: it broke off, or isn't one.
    """
    try:
        raw = await response.read()
    finally:
        response.close()
    try:
        answer = orjson.loads(raw)
    except orjson.JSONDecodeError as error:
        raise EngineProtocolError(url, "an answer that isn't JSON") from error
    if not isinstance(answer, dict):
        raise EngineProtocolError(url, "an answer that isn't a JSON object")
    return answer


class PartReader:
    """The events of a streamed answer, read by read."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._events = EventReader()
        self.ended = False
        """Whether the last one has come."""

    def events(self, data: bytes | None) -> list[bytes]:
        """The data of the events that `data` completes; None is the end of the answer.

        Raises:
            EngineProtocolError: it ends without saying so.
        """
        if data is None:
            raise EngineProtocolError(self._url, "a stream that ends without [DONE]")
        found = self._events.feed(data)
        if DONE in found:
            self.ended = True
            del found[found.index(DONE) :]
        return found

    @property
    def is_within_an_event(self) -> bool:
        """Whether one has begun that isn't complete."""
        return self._events.has_rest

    def part(self, data: bytes) -> JSONObject:
        """What an event holds.

        Raises:
            EngineProtocolError: no JSON object.
        """
        try:
            part = orjson.loads(data)
        except orjson.JSONDecodeError as error:
            raise EngineProtocolError(self._url, "an event that isn't JSON") from error
        if not isinstance(part, dict):
            raise EngineProtocolError(self._url, "an event that isn't a JSON object")
        return part


def learn_usage(usual: UsualParts | None, account: Account) -> None:
    """Keep what chunks that were passed on said of the request's tokens."""
    usage = None if usual is None else usual.usage()
    if usage:
        account.reported_usage = usage


def usual_parts(request: AnswerRequest, account: Account, form: StreamForm) -> UsualParts | None:
    """What passes chunks on as they are; None where each must be taken apart."""
    options, prepared = request.stream_options, account.prepared
    if not isinstance(form, ChatForm) or prepared is None:
        return None
    if options is not None and options.continuous_usage_stats:
        return None
    return UsualParts(request_id=account.request_id, model=prepared.model)


def public_answer(answer: JSONObject, account: Account) -> JSONObject:
    """A whole answer, with Foreword's own block. Changes the answer."""
    public = _public(answer, account)
    public["foreword"] = account.block()
    return public


def public_part(account: Account, request: AnswerRequest, part: JSONObject) -> JSONObject | None:
    """A part as the client sees it; None for the engine's own book-keeping. Changes the part.

    Raises:
        EngineResponseError: the part is the engine's word that it failed.
    """
    if "error" in part:
        refusal = refusal_in(orjson.dumps(part))
        raise EngineResponseError(account.engine_url, 500, refusal.message, param=refusal.param)
    account.learn(part)
    if not part.get("choices"):
        return None
    options = request.stream_options
    if "usage" in part and not (options and options.continuous_usage_stats):
        del part["usage"]
    return _public(part, account)


def says_something(part: JSONObject) -> bool:
    """Whether a part holds something that the model said."""
    for choice in part.get("choices", ()):
        if choice.get("text"):
            return True
        delta = choice.get("delta")
        if delta and (
            delta.get("content") or delta.get("reasoning_content") or delta.get("tool_calls")
        ):
            return True
    return False


def last_part(account: Account, request: AnswerRequest) -> JSONObject:
    """Usage and Foreword's block, in a part without choices."""
    options = request.stream_options
    last: JSONObject = {
        "id": account.request_id,
        "object": "chat.completion.chunk",
        "created": int(time.time()),
        "model": account.prepared.model if account.prepared else None,
        "choices": [],
        "foreword": account.block(),
    }
    if options is not None and options.include_usage:
        last["usage"] = account.reported_usage
    return last


def _public(answer: JSONObject, account: Account) -> JSONObject:
    """The answer itself, without what only the gateway should see."""
    assert account.prepared is not None
    for name in _ENGINE_ONLY:
        answer.pop(name, None)
    answer["id"], answer["model"] = account.request_id, account.prepared.model
    return answer
