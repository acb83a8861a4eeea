"""One request's way through the engine and back, and its entry in the ledger.

Every request that reached the pipeline leaves a row, whether it was answered, failed or was given
up by its client.
"""

import asyncio
import os
from collections.abc import AsyncGenerator

import anyio
import sqlalchemy as sa
import structlog

from app.accounts import Account, JSONObject
from app.answers import last_part, public_answer, read_whole
from app.completions import AnswerRequest, CompletionRequest
from app.completions.prepare import prepare_text
from app.errors import (
    ContextLengthError,
    CorpusTooLargeError,
    EngineError,
    GatewayError,
    GatewayStoppingError,
    NotStoredError,
    PromptLimitError,
)
from app.hot.chunks import ChunkWriter
from app.hot.departure import shielded
from app.modes.reporting import answered_of
from app.observation import named, saw, stage
from app.passage import Passage
from app.prepare import prepare
from app.prepared import Prepared
from app.refusing import noted
from app.schemas import Mode
from app.sending import abort, send
from app.services import Services
from app.stream_forms import StreamForm
from app.upstream import UpstreamResponse
from cache.rows import RequestStatus
from prompts import PromptError
from retrieval import RetrievalError

_log = structlog.get_logger()


def open_account(services: Services, *, tenant: str, prefix: str = "chatcmpl-") -> Account:
    """A fresh account, whose id begins with `prefix`; the clock starts."""
    request_id = prefix + os.urandom(16).hex()
    named(request_id)
    return Account(
        request_id=request_id,
        tenant=tenant,
        tiers=services.settings.engine.tiers,
        keeps_text=services.settings.ledger.prompt_text,
    )


async def begin(services: Services, request: AnswerRequest, account: Account) -> None:
    """Prepare a request; a failure is written into the ledger before it is raised."""
    options = request.foreword
    if options is not None:
        account.diagnoses = options.diagnostics
    try:
        with stage("prepare"):
            account.prepared = await _prepared(services, request, account)
            _check_prompt(account)
    except (GatewayError, PromptError, RetrievalError) as error:
        if options is not None and isinstance(error, ContextLengthError | CorpusTooLargeError):
            account.collection = options.collection  # a name that was looked up
        account.failed(error)
        _write_down(services, account)
        raise


async def _prepared(services: Services, request: AnswerRequest, account: Account) -> Prepared:
    tenant, request_id = account.tenant, account.request_id
    if isinstance(request, CompletionRequest):
        return await prepare_text(services, request, tenant=tenant, request_id=request_id)
    return await prepare(
        services, request, tenant=tenant, request_id=request_id, resumption=account.resumption
    )


def _check_prompt(account: Account) -> None:
    """Raises PromptLimitError: the prompt is longer than the tenant's may be."""
    limit, prepared = account.max_prompt_tokens, account.prepared
    if limit is None or prepared is None or prepared.prompt is None:
        return
    if (tokens := prepared.prompt.tokens) > limit:
        raise PromptLimitError(tokens, limit)


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
    request: AnswerRequest,
    account: Account,
    response: UpstreamResponse,
    form: StreamForm,
    writer: ChunkWriter | None = None,
) -> AsyncGenerator[bytes]:
    """The answer as server-sent events, each passed on as it comes.

    An error after the first byte is an event of its own: the status has been sent. The first piece
    is yielded even if it is empty; where there is a `writer`, all others but the last go to it.
    """
    passage = Passage(services.accounting, request, account, form)
    has_begun = False
    try:
        if begun := form.begin():
            has_begun = True
            yield begun
        while not passage.ended:
            public = passage.take(await response.more())
            if (public or not has_begun) and not passage.ended:
                has_begun = True
                yield public
            if writer is not None and not passage.ended:
                await response.pour(passage.into(writer), passage.straight_into(writer))
                await writer.drained()
        account.status = RequestStatus.OK
        passage.learn_usage()
        end = passage.last
        if request.wants_last_chunk:
            if not services.accounting.settled_at_once(account):
                if end:
                    yield end
                end = b""
                await services.accounting.settle(account)
            end += form.part(last_part(account, request))
        end += form.end()
        await keep(account)
        yield end
    except (EngineError, NotStoredError) as error:
        account.failed(error)
        noted(error)
        await _leave(account)
        yield passage.failed(error)
    except asyncio.CancelledError:
        if account.departure is None or not account.departure.takes_back():
            raise
        # The gateway stops, and the client is there: it is told so. `finish` writes it down.
        await _leave(account)
        yield passage.failed(GatewayStoppingError())
    finally:
        response.close()
        passage.learn_usage()
        await finish(services, account)


async def keep(account: Account) -> None:
    """Make a stored turn durable, before its client is told that it is complete.

    Raises:
        NotStoredError: it can't be kept.
    """
    if account.keep is None:
        return
    try:
        await account.keep()
    except sa.exc.SQLAlchemyError as error:
        problem = str(getattr(error, "orig", None) or error).strip().partition("\n")[0]
        _log.warning("turn_not_stored", request_id=account.request_id, problem=problem)
        raise NotStoredError("the database can't be used now; ask again in a moment") from error


async def finish(services: Services, account: Account) -> None:
    """The end of a request; one that its client has left, or that is cut, is stopped in the
    engine."""
    await _leave(account)
    if account.replica is not None:
        account.replica.meter.ended(account.request_id)
        if account.status is RequestStatus.ABORTED:
            with shielded(account.departure):
                await abort(account.replica, account.request_id)
    if account.status is RequestStatus.ABORTED and _was_cut(services, account):
        account.failed(GatewayStoppingError())
    if not services.accounting.settled_at_once(account):
        with shielded(account.departure):
            await services.accounting.settle(account)
    _remember(services, account)
    if account.others is not None:
        services.corpora.ended(_shown_whole(account))
    services.modes.answered(answered_of(account))
    _write_down(services, account)


async def _leave(account: Account) -> None:
    """What won't be kept gives its conversation free, before anybody hears of its end."""
    if account.leave is None or account.status is RequestStatus.OK:
        return
    with shielded(account.departure):
        await account.leave()


def _was_cut(services: Services, account: Account) -> bool:
    """Whether it was the gateway that gave an unfinished request up, not its client."""
    has_left = account.departure is not None and account.departure.gone
    return services.stopping.is_cut and not has_left


def _remember(services: Services, account: Account) -> None:
    """Keep an answer with its token ids, so that a follow-up begins with what the engine holds."""
    prepared, output_ids = account.prepared, account.output_ids
    if prepared is None or account.status is not RequestStatus.OK:
        return
    services.fleet.openings.answered(prepared)
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
    account.others = services.modes.begun()
    services.corpora.begun(_shown_whole(account))
    return await send(services, account)


def _shown_whole(account: Account) -> str | None:
    """The collection whose corpus the request is shown; None where there is none."""
    prepared = account.prepared
    if prepared is None or prepared.mode is not Mode.CAG or prepared.decision is None:
        return None
    return prepared.decision.collection_id


def _write_down(services: Services, account: Account) -> None:
    row = account.row()
    if account.ticket is not None and account.was_computed:
        account.ticket.used(row.prompt_tokens, row.completion_tokens)
    services.ledger.record(row)
    services.metrics.finished(row)
    saw(row)
