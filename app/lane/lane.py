"""Usual chat requests, from the bytes on the client's connection to those on the engine's."""

import asyncio
import time
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing

import orjson
import structlog

from app.accounts import Account
from app.answers import public_answer, read_whole
from app.body_limit import HeldBodies
from app.errors import EngineError, GatewayStoppingError
from app.lane.asked import Asked, Taker
from app.lane.exchange import Exchange, Line
from app.lane.heads import PATH, KnownHead, KnownHeads
from app.log import LineWriter
from app.observation import OBSERVED, Observation
from app.observer import request_ended
from app.pipeline import finish, relay
from app.problems import error_body, error_headers, problem_of
from app.refusing import noted
from app.schemas import ChatCompletionRequest, ChatMessage, StreamOptions
from app.sending import begin, chosen, fail_over, failed
from app.services import Services
from app.stream_forms import ChatForm
from app.upstream import UpstreamResponse
from cache.rows import RequestStatus

_JSON = (b"content-type", b"application/json")
_STREAM = (
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-cache"),
    (b"x-accel-buffering", b"no"),
)
_log = structlog.get_logger()


class Lane:
    """Takes requests whose heads are known, and answers them.

    Attributes:
        taken: how many went this way.

    Args:
        held: the bodies of requests that aren't answered yet, whichever way they go.
        lines: takes the line of each request.
    """

    def __init__(self, services: Services, *, held: HeldBodies, lines: LineWriter | None) -> None:
        self.heads = KnownHeads()
        self.taken = 0
        self._services = services
        self._lines = lines
        self._held = held
        self._taker = Taker(services, held)
        self._plain, self._with_usage = _streamed(usage=False), _streamed(usage=True)

    def take(self, head: KnownHead, body: bytes, line: Line) -> Exchange | None:
        """A request that came whole; None: it has to go the whole way, and nothing was done."""
        if not self._services.keys.still_holds(head.caller, head.keys_as_of):
            self.heads.forget(head)
            return None
        seen = Observation()
        asked = self._taker.take(head, body)
        if asked is None:
            return None
        self.taken += 1
        seen.request_id = asked.account.request_id
        exchange = Exchange(line)
        asked.account.departure = exchange
        task = asyncio.get_running_loop().create_task(self._answer(asked, exchange, seen))
        exchange.task = task
        return exchange

    async def _answer(self, asked: Asked, exchange: Exchange, seen: Observation) -> None:
        account, metrics = asked.account, self._services.metrics
        OBSERVED.set(seen)
        metrics.in_flight.now += 1
        try:
            try:
                response = await self._ask(asked, exchange)
            except EngineError as error:
                account.failed(error)
                await finish(self._services, account)
                await self._refuse(error, asked, exchange)
            except BaseException:
                await finish(self._services, account)
                raise
            else:
                if asked.wants_usage is None:
                    await self._tell_whole(response, asked, exchange)
                else:
                    await self._tell_stream(response, asked, exchange)
        except asyncio.CancelledError:
            if exchange.takes_back():
                await self._refuse(GatewayStoppingError(), asked, exchange)
            elif not exchange.gone:
                raise
        except Exception as error:  # noqa: BLE001 - as the framework's outermost layer does
            self._fault(error, account, exchange)
        finally:
            metrics.in_flight.now -= 1
            if account.ticket is not None:
                account.ticket.close()
            self._held.bytes -= asked.received
            writer = exchange.writer
            request_ended(
                self._services,
                self._lines,
                seen,
                method="POST",
                route=PATH,
                caller=asked.head.caller,
                client_request_id=asked.head.client_request_id,
                received=asked.received,
                sent=exchange.sent_bytes + (0 if writer is None else writer.sent_bytes),
                status=exchange.status,
            )

    async def _ask(self, asked: Asked, exchange: Exchange) -> UpstreamResponse:
        """The engine's answer, of which some has come.

        Raises:
            EngineError: there is none.
        """
        services, account = self._services, asked.account
        account.others = services.modes.begun()
        choice = chosen(services, account)
        first = services.fleet.get(choice.route.replica)
        prepared = begin(services, account, first, choice, choice.route.reason)
        client, waiting = first.client, first.waiting
        waiting.begun(account.request_id, exchange.task)
        try:
            request = asked.desk.request(client, orjson.dumps(prepared.body))
            response = await client.exchange(request)
            if response.status != 200 or not response.has_begun:
                await client.chat_begun(response)
        except (EngineError, asyncio.CancelledError) as error:
            told = await failed(account, first, error)
            if isinstance(told, EngineError):
                return await fail_over(services, account, first, choice, told)
            raise
        finally:
            waiting.ended(account.request_id)
        first.breaker.succeeded(time.monotonic())
        return response

    async def _tell_whole(
        self, response: UpstreamResponse, asked: Asked, exchange: Exchange
    ) -> None:
        services, account = self._services, asked.account
        try:
            try:
                answer = await read_whole(account.engine_url, response)
                account.learn(answer)
                account.status = RequestStatus.OK
            except EngineError as error:
                account.failed(error)
                raise
            finally:
                await finish(services, account)
        except EngineError as error:
            await self._refuse(error, asked, exchange)
            return
        content = orjson.dumps(public_answer(answer, account))
        if exchange.flow.write_paused:
            await exchange.flow.drain()
        exchange.whole(200, self._whole_headers(asked, len(content)), content)

    async def _tell_stream(
        self, response: UpstreamResponse, asked: Asked, exchange: Exchange
    ) -> None:
        account = asked.account
        named = (b"x-request-id", account.request_id.encode())
        try:
            writer = await exchange.begin((*_STREAM, named, *self._standing(asked)))
        except asyncio.CancelledError:  # the client is gone before anything was relayed
            response.close()
            await finish(self._services, account)
            raise
        form = self._with_usage if asked.wants_usage else self._plain
        chunks: AsyncGenerator[bytes] = relay(
            self._services, form, account, response, ChatForm(), writer
        )
        async with aclosing(chunks):
            async for chunk in chunks:
                await exchange.piece(chunk)
        await exchange.end()

    async def _refuse(
        self, error: EngineError | GatewayStoppingError, asked: Asked, exchange: Exchange
    ) -> None:
        noted(error)
        content = orjson.dumps(error_body(error))
        told = error_headers(error).items()
        headers = (
            *self._whole_headers(asked, len(content)),
            *((name.encode(), value.encode()) for name, value in told),
        )
        if exchange.flow.write_paused:
            await exchange.flow.drain()
        exchange.fail(problem_of(error).status, headers, content)

    def _fault(self, error: Exception, account: Account, exchange: Exchange) -> None:
        """What nobody thought of; the connection tells the client where an answer was begun."""
        request_id = account.request_id
        _log.error("unexpected_error", request_id=request_id, path=PATH, exc_info=error)
        content = orjson.dumps(error_body(error))
        headers = (
            (b"x-request-id", request_id.encode()),
            (b"content-length", b"%d" % len(content)),
            _JSON,
        )
        exchange.fail(problem_of(error).status, headers, content)

    def _whole_headers(self, asked: Asked, length: int) -> tuple[tuple[bytes, bytes], ...]:
        return (
            (b"x-request-id", asked.account.request_id.encode()),
            (b"content-length", b"%d" % length),
            _JSON,
            *(self._standing(asked) if asked.desk.is_limited else ()),
        )

    def _standing(self, asked: Asked) -> Iterator[tuple[bytes, bytes]]:
        """How the tenant stands with its limits; nothing where it has none by the minute."""
        told = self._services.admission.headers(asked.head.caller)
        return ((name.encode(), value.encode()) for name, value in told.items())


def _streamed(*, usage: bool) -> ChatCompletionRequest:
    """A request as far as the form of its stream goes."""
    return ChatCompletionRequest(
        model="default",
        messages=[ChatMessage(role="user")],
        stream=True,
        stream_options=StreamOptions(include_usage=usage),
    )


def open_lane(services: Services, held: HeldBodies, lines: LineWriter | None) -> Lane | None:
    """None where each request has more to it: a trace, a shadow, or limits of several gateways; or
    less: an answer that was kept."""
    if services.tracing is not None or services.shadow is not None:
        return None
    if services.admission.shared is not None or services.response_cache is not None:
        return None
    return Lane(services, held=held, lines=lines)
