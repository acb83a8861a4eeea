"""One request's way through the engine and back, and its entry in the ledger.

Every request that reached the pipeline leaves a row, whether it was answered, failed or was given
up by its client.
"""

from collections.abc import AsyncGenerator
from uuid import uuid4

import anyio
import structlog

from app.accounts import Account, JSONObject
from app.answers import (
    last_part,
    public_answer,
    public_part,
    read_parts,
    read_whole,
    says_something,
)
from app.errors import ContextLengthError, CorpusTooLargeError, EngineError, GatewayError
from app.modes.reporting import answered_of
from app.prepare import prepare
from app.schemas import ChatCompletionRequest, Mode
from app.services import Services
from app.stream_forms import StreamForm
from app.upstream import UpstreamResponse
from cache.rows import RequestStatus
from prompts import PromptError
from retrieval import RetrievalError

_ABORT_S = 2.0

_log = structlog.get_logger()


def open_account(services: Services, *, tenant: str, prefix: str = "chatcmpl-") -> Account:
    """A fresh account, whose id begins with `prefix`; the clock starts."""
    return Account(
        request_id=f"{prefix}{uuid4().hex}",
        tenant=tenant,
        engine_url=services.replica.client.url,
        tiers=services.settings.engine.tiers,
        keeps_text=services.settings.ledger.prompt_text,
    )


async def begin(services: Services, request: ChatCompletionRequest, account: Account) -> None:
    """Prepare a request; a failure is written into the ledger before it is raised."""
    options = request.foreword
    if options is not None:
        account.diagnoses = options.diagnostics
    try:
        account.prepared = await prepare(
            services, request, tenant=account.tenant, request_id=account.request_id
        )
    except (GatewayError, PromptError, RetrievalError) as error:
        if options is not None and isinstance(error, ContextLengthError | CorpusTooLargeError):
            account.collection = options.collection  # a name that was looked up
        account.failed(error)
        _write_down(services, account)
        raise


async def complete(services: Services, account: Account) -> JSONObject:
    """The whole answer at once.

    Raises:
        EngineError: the engine failed.
    """
    try:
        response = await _send(services, account)
        answer = await read_whole(account.engine_url, response)
        account.learn(answer)
        account.status = RequestStatus.OK
    except EngineError as error:
        account.failed(error)
        raise
    finally:
        await finish(services, account)
    return public_answer(answer, account)


async def open_stream(services: Services, account: Account) -> UpstreamResponse:
    """Send a streaming request; returns when the engine has taken it.

    Raises:
        EngineError: it didn't; the ledger has it.
    """
    try:
        return await _send(services, account)
    except EngineError as error:
        account.failed(error)
        await finish(services, account)
        raise
    except anyio.get_cancelled_exc_class():
        await finish(services, account)
        raise


async def relay(
    services: Services,
    request: ChatCompletionRequest,
    account: Account,
    response: UpstreamResponse,
    form: StreamForm,
) -> AsyncGenerator[bytes]:
    """The answer as server-sent events, each passed on as it comes.

    An error after the first byte is an event of its own: the status has been sent.
    """
    try:
        yield form.begin()
        async for part in read_parts(account.engine_url, response):
            public = public_part(account, request, part)
            if says_something(part) and account.first_content():
                services.accounting.first_token(account)
            if public is not None:
                yield form.part(public)
        account.status = RequestStatus.OK
        if request.wants_last_chunk:
            await services.accounting.settle(account)
            yield form.part(last_part(account, request))
        yield form.end()
    except EngineError as error:
        account.failed(error)
        yield form.failed(error)
    finally:
        response.close()
        await finish(services, account)


async def finish(services: Services, account: Account) -> None:
    """The end of a request; one whose client has gone is stopped in the engine."""
    with anyio.CancelScope(shield=True):
        if account.status is RequestStatus.ABORTED:
            with anyio.move_on_after(_ABORT_S):
                await _abort(services, account.request_id)
        await services.accounting.settle(account)
    _remember(services, account)
    if account.others is not None:
        services.corpora.ended(_shown_whole(account))
    services.modes.answered(answered_of(account))
    _write_down(services, account)


def _remember(services: Services, account: Account) -> None:
    """Keep an answer with its token ids, so that a follow-up begins with what the engine holds."""
    prepared, output_ids = account.prepared, account.output_ids
    if prepared is None or account.status is not RequestStatus.OK:
        return
    answer = account.spoken.message()
    if prepared.remember is not None:
        prepared.remember(answer)
    prompt = prepared.prompt
    if prepared.tokenizer is not None and prompt and output_ids and account.copies == 1:
        services.conversations.answered(
            prepared.salt,
            prompt,
            prepared.tokenizer,
            output_ids=output_ids,
            answer=answer,
            transcript=prepared.transcript,
        )


async def _send(services: Services, account: Account) -> UpstreamResponse:
    prepared = account.prepared
    assert prepared is not None
    services.accounting.expect(account)
    account.others = services.modes.begun()
    services.corpora.begun(_shown_whole(account))
    return await services.replica.client.chat(prepared.body, labels=prepared.labels)


def _shown_whole(account: Account) -> str | None:
    """The collection whose corpus the request is shown; None where there is none."""
    prepared = account.prepared
    if prepared is None or prepared.mode is not Mode.CAG or prepared.decision is None:
        return None
    return prepared.decision.collection_id


async def _abort(services: Services, request_id: str) -> None:
    try:
        await services.replica.client.abort(request_id)
    except EngineError as error:
        _log.warning("abort_failed", request_id=request_id, problem=str(error))


def _write_down(services: Services, account: Account) -> None:
    row = account.row()
    services.ledger.record(row)
    services.metrics.finished(row)
