"""A request on its way to a replica, and to the next best one where that can't take it.

Once, and only before anything of an answer has come: a request that may be computed already isn't
sent twice.
"""

import asyncio
import time

import anyio
import msgspec
import structlog

from app.accounts import Account
from app.errors import (
    EngineError,
    EngineResponseError,
    EngineTimeoutError,
    EngineUnreachableError,
)
from app.fleet.choosing import Choice, look_up
from app.fleet.fleet import Fleet
from app.observation import stage
from app.prepared import Prepared
from app.replica import Replica
from app.services import Services
from app.upstream import UpstreamResponse

_ABORT_S = 2.0
_NOT_READY = 503

_log = structlog.get_logger()


async def send(services: Services, account: Account) -> UpstreamResponse:
    """Choose a replica and send the request; returns when its answer has begun.

    Raises:
        EngineNotReadyError: no replica takes requests.
        EngineError: it failed, and the next best one too, where there is one.
    """
    with stage("route") as seen:
        choice = chosen(services, account)
        seen.set("route_reason", choice.route.reason)
    first = services.fleet.get(choice.route.replica)
    try:
        return await _send_to(services, account, first, choice, choice.route.reason)
    except EngineError as error:
        return await fail_over(services, account, first, choice, error)


def chosen(services: Services, account: Account) -> Choice:
    """Where a request goes first.

    Raises:
        EngineNotReadyError: no replica takes requests.
    """
    prepared = account.prepared
    assert prepared is not None
    look = look_up(services.accounting.index, prepared)
    left_s = None if account.deadline_s is None else account.left_s()
    return services.fleet.route(prepared, look, deadline_s=left_s)


async def fail_over(
    services: Services, account: Account, first: Replica, choice: Choice, error: EngineError
) -> UpstreamResponse:
    """The next best replica's answer.

    Raises:
        EngineError: the request may not be sent again, there is no other, or that failed too.
    """
    fleet, look = services.fleet, choice.look
    second = _next_best(fleet, choice, first) if may_be_sent_again(error) else None
    if second is None:
        raise error
    _log.warning(
        "failed_over", request_id=account.request_id, replica=first.name, problem=str(error)
    )
    first.meter.ended(account.request_id)
    services.accounting.withdraw(account)
    fleet.failovers += 1
    services.metrics.failed_over(first.name)
    reason = f"{first.name} didn't take it ({_briefly(error)}), next best"
    again = msgspec.structs.replace(choice, look=None if look is None else look.again())
    return await _send_to(services, account, second, again, reason)


def may_be_sent_again(error: EngineError) -> bool:
    """Whether the replica surely answers nothing of the request any more.

    One that is silent may be computing it, as long as it isn't silent to all.
    """
    match error:
        case EngineUnreachableError():
            return True
        case EngineTimeoutError():
            return error.phase == "connect"
        case EngineResponseError():
            return error.status == _NOT_READY
    return False


def blame(replica: Replica, error: EngineError) -> None:
    """Count a failure against the replica, unless the request was at fault."""
    now = time.monotonic()
    if isinstance(error, EngineResponseError) and error.status < 500:
        replica.breaker.succeeded(now)
        return
    replica.breaker.failed(now)
    if isinstance(error, EngineUnreachableError | EngineTimeoutError):
        replica.look_now()


async def abort(replica: Replica, request_id: str) -> None:
    """Stop a request that nobody waits for any more; gives up after 2 s."""
    with anyio.move_on_after(_ABORT_S):
        try:
            await replica.client.abort(request_id)
        except EngineError as error:
            _log.warning("abort_failed", request_id=request_id, problem=str(error))


async def _send_to(
    services: Services, account: Account, replica: Replica, choice: Choice, reason: str
) -> UpstreamResponse:
    prepared = begin(services, account, replica, choice, reason)
    replica.waiting.begun(account.request_id, asyncio.current_task())
    try:
        response = await replica.client.chat(
            prepared.body, labels=prepared.labels, path=prepared.path
        )
        await response.begun()
    except (EngineError, asyncio.CancelledError) as error:
        told = await failed(account, replica, error)
        if told is error:
            raise
        raise told from None
    finally:
        replica.waiting.ended(account.request_id)
    replica.breaker.succeeded(time.monotonic())
    return response


def begin(
    services: Services, account: Account, replica: Replica, choice: Choice, reason: str
) -> Prepared:
    """A request is about to be sent to a replica; `Waiting.begun` is due, too."""
    now = time.monotonic()
    prepared = account.sent_to(replica, reason, choice.look)
    streams = bool(prepared.body.get("stream"))
    if streams:
        account.gaps = services.metrics.gaps(replica.name)
    replica.check.sent(prepared.body)
    services.accounting.expect(account)
    tokens = choice.to_compute(replica.name)
    replica.meter.begun(account.request_id, tokens=tokens, at=now, streams=streams)
    replica.breaker.began(now)
    account.sent_at = time.perf_counter()
    return prepared


async def failed(
    account: Account, replica: Replica, error: EngineError | asyncio.CancelledError
) -> EngineError | asyncio.CancelledError:
    """A request to a replica came to nothing; what is to be raised for it."""
    waiting, request_id = replica.waiting, account.request_id
    if isinstance(error, EngineError):
        # It waits no more: to be woken now would end it.
        waiting.ended(request_id)
        blame(replica, error)
        if isinstance(error, EngineTimeoutError) and error.phase != "connect":
            await abort(replica, request_id)
        return error
    if waiting.was_given_up(request_id):
        problem = f"it has answered nothing for {replica.silent_s:.0f} s"
        silence = EngineUnreachableError(replica.client.url, problem)
        waiting.ended(request_id)
        blame(replica, silence)
        return silence
    replica.breaker.abandoned()
    return error


def _next_best(fleet: Fleet, choice: Choice, failed: Replica) -> Replica | None:
    able = {replica.name: replica for replica in fleet.candidates() if replica is not failed}
    return next((able[name] for name in choice.route.order if name in able), None) or next(
        iter(able.values()), None
    )


def _briefly(error: EngineError) -> str:
    match error:
        case EngineUnreachableError():
            return error.problem
        case EngineTimeoutError():
            return f"no connection within {error.after_s:g} s"
        case EngineResponseError():
            return f"status {error.status}"
    return type(error).__name__
