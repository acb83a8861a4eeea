"""A request's answer: one that was kept, or a new one that is."""

import time
from collections.abc import Callable

import orjson
from starlette.requests import HTTPConnection
from starlette.responses import Response

from app.accounts import Account, JSONObject
from app.answers import last_part
from app.errors import AnswerError
from app.pipeline import keep
from app.response_cache.cache import ResponseCache
from app.response_cache.keys import CacheControl, cache_control
from app.response_cache.records import KeptAnswer, kept_usage
from app.schemas import ChatCompletionRequest
from app.services import Services
from app.stream_forms import StreamForm
from cache.rows import RequestStatus
from cache.usage import CacheUsage

HEADER = "x-foreword-response-cache"
_ENDS = ("stop", "length")

Whole = Callable[[JSONObject], JSONObject]
Makes = Callable[[Whole, StreamForm], Response]


async def kept_or_new(
    cache: ResponseCache,
    services: Services,
    connection: HTTPConnection,
    request: ChatCompletionRequest,
    account: Account,
    *,
    whole: Whole,
    form: StreamForm,
    new: Makes,
) -> Response:
    """The kept answer to a prepared request, or what `new` makes of these, kept when it has ended.

    Args:
        whole, form: how this API spells an answer of chat completions.
    """
    control = cache_control(connection.headers.get("cache-control"))
    key = cache.key(request, account, services.fleet.view().info, control)
    if key is None:
        return new(whole, form)
    if control is CacheControl.USUAL:
        found = await cache.find(key, tenant=account.tenant)
        if found is not None:
            cache.given(found, tenant=account.tenant)
            return await _given(found, request, account, whole, form)
    keeping = _Keeping(cache, key, account, whole, form)
    return new(keeping.whole, keeping)


async def _given(
    found: KeptAnswer,
    request: ChatCompletionRequest,
    account: Account,
    whole: Whole,
    form: StreamForm,
) -> Response:
    """Raises NotStoredError: the turn that it answers can't be kept."""
    age_s = max(0, int(time.time() - found.made_at))
    account.status = RequestStatus.OK
    account.spoken.add(found.message())
    account.reported_usage = found.usage
    # What was re-used when it was made is nothing that was re-used now.
    account.usage = CacheUsage(
        prompt_tokens=found.usage["prompt_tokens"],
        completion_tokens=found.usage["completion_tokens"],
    )
    assert account.prepared is not None
    told = {
        "id": account.request_id,
        "created": int(time.time()),
        "model": account.prepared.model,
    }
    block = {"response_cache": {"request_id": found.request_id, "age_s": age_s}}
    headers = {"x-request-id": account.request_id, HEADER: "hit", "age": str(age_s)}
    if not request.stream:
        answer = whole(told | found.whole() | {"foreword": account.block() | block})
        await keep(account)
        return Response(orjson.dumps(answer), media_type="application/json", headers=headers)
    pieces = [form.begin(), *(form.part(told | part) for part in found.parts())]
    if request.wants_last_chunk:
        last = last_part(account, request)
        pieces.append(form.part(last | {"foreword": last["foreword"] | block}))
    pieces.append(form.end())
    await keep(account)
    headers |= {"cache-control": "no-cache", "x-accel-buffering": "no"}
    kind = "text/event-stream; charset=utf-8"
    return Response(b"".join(pieces), headers=headers | {"content-type": kind})


class _Keeping:
    """Spells an answer as another form does, and has it kept when it is complete."""

    def __init__(
        self, cache: ResponseCache, key: str, account: Account, whole: Whole, form: StreamForm
    ) -> None:
        self._cache = cache
        self._key = key
        self._account = account
        self._whole = whole
        self._form = form
        self._finish: str | None = None

    def whole(self, answer: JSONObject) -> JSONObject:
        """A whole answer."""
        self._finish = answer["choices"][0].get("finish_reason")
        self._keep(answer.get("usage"))
        return self._whole(answer)

    def begin(self) -> bytes:
        """What comes before the first part."""
        return self._form.begin()

    def part(self, part: JSONObject) -> bytes:
        """What a part becomes."""
        for choice in part.get("choices") or ():
            self._finish = choice.get("finish_reason") or self._finish
        return self._form.part(part)

    def end(self) -> bytes:
        """What comes after the last part."""
        self._keep(self._account.reported_usage)
        return self._form.end()

    def failed(self, error: AnswerError) -> bytes:
        """Nothing is kept of an answer that breaks off."""
        return self._form.failed(error)

    def _keep(self, reported: JSONObject | None) -> None:
        account, usage = self._account, kept_usage(reported)
        message = account.spoken.message()
        if usage is None or self._finish not in _ENDS or message.tool_calls:
            return
        assert account.prepared is not None
        answer = KeptAnswer(
            request_id=account.request_id,
            made_at=time.time(),
            content=message.content,
            reasoning=message.reasoning,
            finish_reason=self._finish,
            usage=usage,
        )
        salt = account.prepared.salt
        self._cache.keep_later(self._key, answer, tenant=account.tenant, salt=salt)
