"""The engine's answers as clients see them, whole or in parts."""

import time
from collections.abc import AsyncIterator

import orjson

from app.accounts import Account, JSONObject
from app.errors import EngineProtocolError, EngineResponseError
from app.schemas import ChatCompletionRequest
from app.sse import DONE, EventReader
from app.upstream import UpstreamResponse

_ENGINE_ONLY = frozenset({"sglext", "metadata"})


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


async def read_parts(url: str, response: UpstreamResponse) -> AsyncIterator[JSONObject]:
    """The parts of a streamed answer, as they come.

    Raises:
        EngineError: it broke off, or a part isn't JSON.
    """
    reader = EventReader()
    async for data in response.chunks():
        for item in reader.feed(data):
            if item == DONE:
                return
            try:
                yield orjson.loads(item)
            except orjson.JSONDecodeError as error:
                raise EngineProtocolError(url, "an event that isn't JSON") from error
    raise EngineProtocolError(url, "a stream that ends without [DONE]")


def public_answer(answer: JSONObject, account: Account) -> JSONObject:
    """A whole answer, with Foreword's own block."""
    return _public(answer, account) | {"foreword": account.block()}


def public_part(
    account: Account, request: ChatCompletionRequest, part: JSONObject
) -> JSONObject | None:
    """A part as the client sees it; None for the engine's own book-keeping.

    Raises:
        EngineResponseError: the part is the engine's word that it failed.
    """
    if "error" in part:
        message = str(part["error"].get("message", part["error"]))
        raise EngineResponseError(account.engine_url, 500, message)
    account.learn(part)
    if not part.get("choices"):
        return None
    public = _public(part, account)
    options = request.stream_options
    if "usage" in public and not (options and options.continuous_usage_stats):
        del public["usage"]
    return public


def says_something(part: JSONObject) -> bool:
    """Whether a part holds something that the model said."""
    named = ("content", "reasoning_content", "tool_calls")
    return any(
        choice.get("delta", {}).get(name) for choice in part.get("choices", ()) for name in named
    )


def last_part(account: Account, request: ChatCompletionRequest) -> JSONObject:
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
    """An answer without what only the gateway should see."""
    assert account.prepared is not None
    public = {name: value for name, value in answer.items() if name not in _ENGINE_ONLY}
    return public | {"id": account.request_id, "model": account.prepared.model}
