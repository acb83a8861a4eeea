"""One request's way through the engine and back, and its entry in the ledger.

Every request that reached the pipeline leaves a row, whether it was answered, failed or was given
up by its client.
"""

import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

import anyio
import orjson
import structlog

from app.citations import cite
from app.errors import EngineError, EngineProtocolError, EngineResponseError, GatewayError
from app.prepare import Prepared, prepare
from app.problems import error_body, problem_of
from app.schemas import ChatCompletionRequest
from app.services import Services
from app.sse import DONE, EventReader, event
from app.upstream import UpstreamResponse
from cache.rows import LedgerRow, RequestStatus
from cache.usage import CacheUsage, Tier, parse_usage
from prompts import PromptError
from retrieval import RetrievalError

_ABORT_S = 2.0
_ENGINE_ONLY = frozenset({"sglext", "metadata"})

_log = structlog.get_logger()

JSONObject = dict[str, Any]


@dataclass(slots=True, kw_only=True)
class Account:
    """What is learned of a request on its way; becomes its ledger row."""

    request_id: str
    tenant: str
    started: float = field(default_factory=time.perf_counter)
    prepared: Prepared | None = None
    template: str = "unknown"
    collection: str | None = None
    usage: CacheUsage = field(default_factory=CacheUsage)
    ttft_s: float | None = None
    status: RequestStatus = RequestStatus.ABORTED
    error_code: str | None = None
    answer: list[str] = field(default_factory=list)
    engine_url: str = ""
    tiers: tuple[Tier, ...] = tuple(Tier)
    reported_usage: JSONObject | None = None
    _sglext: JSONObject | None = None

    def learn(self, answer: JSONObject) -> None:
        """Take what an answer, or a chunk of one, says about re-use.

        SGLang sends usage and the split by tier in chunks of their own.
        """
        if not answer.get("usage") and not answer.get("sglext"):
            return
        if answer.get("usage"):
            self.reported_usage = answer["usage"]
        if answer.get("sglext"):
            self._sglext = answer["sglext"]
        self.usage = parse_usage(
            self.reported_usage, self._sglext, lmcache_tiers=frozenset(self.tiers) - {Tier.GPU}
        )

    def first_content(self) -> None:
        """The first content has come."""
        if self.ttft_s is None:
            self.ttft_s = self.elapsed_s()

    def elapsed_s(self) -> float:
        """Seconds since the request arrived."""
        return time.perf_counter() - self.started

    def failed(self, error: Exception) -> None:
        """The request ends in an error."""
        self.status = RequestStatus.ERROR
        self.error_code = problem_of(error).code

    def row(self) -> LedgerRow:
        """The ledger row, as of now."""
        prepared, tiers = self.prepared, self.usage.by_tier
        local_tokens = len(prepared.prompt.token_ids) if prepared and prepared.prompt else None
        reported = self.usage.prompt_tokens
        return LedgerRow(
            request_id=self.request_id,
            at=datetime.now(UTC),
            tenant=self.tenant,
            template=prepared.template if prepared else self.template,
            status=self.status,
            collection=prepared.collection if prepared else self.collection,
            mode=prepared.mode.value if prepared and prepared.mode else None,
            replica=prepared.replica if prepared else None,
            prompt_tokens=local_tokens if reported is None else reported,
            cached_tokens=self.usage.cached_tokens,
            cached_gpu=tiers.gpu,
            cached_ram=tiers.ram,
            cached_ssd=tiers.ssd,
            cached_redis=tiers.redis,
            cached_storage=tiers.storage,
            completion_tokens=self.usage.completion_tokens,
            ttft_s=self.ttft_s,
            e2e_s=self.elapsed_s(),
            error_code=self.error_code,
        )

    def block(self) -> JSONObject:
        """The `foreword` object of the response; what isn't known is null."""
        prepared, tiers = self.prepared, self.usage.by_tier
        assert prepared is not None
        answer = "".join(self.answer)
        return {
            "request_id": self.request_id,
            "template": prepared.template,
            "tenant": self.tenant,
            "collection": prepared.collection,
            "mode": prepared.mode,
            "mode_reason": prepared.mode_reason,
            "replica": prepared.replica,
            "route_reason": "only replica",
            "prompt_tokens": self.usage.prompt_tokens,
            "ideal_tokens": None,
            "cached_tokens": self.usage.cached_tokens,
            "cached_by_tier": {
                "gpu": tiers.gpu,
                "ram": tiers.ram,
                "ssd": tiers.ssd,
                "redis": tiers.redis,
                "storage": tiers.storage,
            },
            "ttft_s": self.ttft_s,
            "verdict": None,
            "divergence": None,
            "citations": cite(answer, prepared.sources),
        }


def open_account(services: Services, *, tenant: str) -> Account:
    """A fresh account; the clock starts."""
    return Account(
        request_id=f"chatcmpl-{uuid4().hex}",
        tenant=tenant,
        engine_url=services.replica.client.url,
        tiers=services.settings.engine.tiers,
    )


async def begin(services: Services, request: ChatCompletionRequest, account: Account) -> None:
    """Prepare a request; a failure is written into the ledger before it is raised."""
    options = request.foreword
    if options is not None:
        account.collection = options.collection
    try:
        account.prepared = await prepare(
            services, request, tenant=account.tenant, request_id=account.request_id
        )
    except (GatewayError, PromptError, RetrievalError) as error:
        account.failed(error)
        finish(services, account)
        raise


async def complete(services: Services, account: Account) -> JSONObject:
    """The whole answer at once.

    Raises:
        EngineError: the engine failed.
    """
    try:
        answer = await _completion(services, account)
        account.learn(answer)
        account.answer += [_content(choice, "message") for choice in answer.get("choices", [])[:1]]
        account.status = RequestStatus.OK
        return _public(answer, account) | {"foreword": account.block()}
    except EngineError as error:
        account.failed(error)
        raise
    finally:
        await settle(services, account)


async def _completion(services: Services, account: Account) -> JSONObject:
    assert account.prepared is not None
    client = services.replica.client
    response = await client.chat(account.prepared.body, labels=account.prepared.labels)
    try:
        raw = await response.read()
    finally:
        response.close()
    try:
        answer = orjson.loads(raw)
    except orjson.JSONDecodeError as error:
        raise EngineProtocolError(client.url, "an answer that isn't JSON") from error
    if not isinstance(answer, dict):
        raise EngineProtocolError(client.url, "an answer that isn't a JSON object")
    return answer


async def open_stream(services: Services, account: Account) -> UpstreamResponse:
    """Send a streaming request; returns when the engine has taken it.

    Raises:
        EngineError: it didn't; the ledger has it.
    """
    assert account.prepared is not None
    try:
        return await services.replica.client.chat(
            account.prepared.body, labels=account.prepared.labels
        )
    except EngineError as error:
        account.failed(error)
        await settle(services, account)
        raise
    except anyio.get_cancelled_exc_class():
        await settle(services, account)
        raise


async def relay(
    services: Services,
    request: ChatCompletionRequest,
    account: Account,
    response: UpstreamResponse,
) -> AsyncIterator[bytes]:
    """The answer as server-sent events, each passed on as it comes.

    An error after the first byte is an event of its own: the status has been sent.
    """
    try:
        async for chunk in _chunks(services.replica.client.url, response):
            if (public := _public_chunk(account, chunk)) is not None:
                yield event(orjson.dumps(public))
        account.status = RequestStatus.OK
        if request.wants_last_chunk:
            yield event(orjson.dumps(_last_chunk(account, request)))
        yield event(DONE)
    except EngineError as error:
        account.failed(error)
        yield event(orjson.dumps(error_body(error)))
    finally:
        response.close()
        await settle(services, account)


async def settle(services: Services, account: Account) -> None:
    """The end of a request; one whose client has gone is stopped in the engine."""
    with anyio.CancelScope(shield=True):
        if account.status is RequestStatus.ABORTED:
            with anyio.move_on_after(_ABORT_S):
                await _abort(services, account.request_id)
    finish(services, account)


def finish(services: Services, account: Account) -> None:
    """Write the request down."""
    row = account.row()
    services.ledger.record(row)
    services.metrics.finished(row)


async def _abort(services: Services, request_id: str) -> None:
    try:
        await services.replica.client.abort(request_id)
    except EngineError as error:
        _log.warning("abort_failed", request_id=request_id, problem=str(error))


async def _chunks(url: str, response: UpstreamResponse) -> AsyncIterator[JSONObject]:
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


def _public_chunk(account: Account, chunk: JSONObject) -> JSONObject | None:
    """A chunk as the client sees it; None for the engine's own book-keeping."""
    if "error" in chunk:
        message = str(chunk["error"].get("message", chunk["error"]))
        raise EngineResponseError(account.engine_url, 500, message)
    account.learn(chunk)
    if not chunk.get("choices"):
        return None
    for choice in chunk["choices"]:
        if _says_something(choice.get("delta", {})):
            account.first_content()
        if choice.get("index") == 0:
            account.answer.append(_content(choice, "delta"))
    return _public(chunk, account)


def _last_chunk(account: Account, request: ChatCompletionRequest) -> JSONObject:
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


def _says_something(delta: JSONObject) -> bool:
    return any(delta.get(name) for name in ("content", "reasoning_content", "tool_calls"))


def _content(choice: JSONObject, part: str) -> str:
    return (choice.get(part) or {}).get("content") or ""
