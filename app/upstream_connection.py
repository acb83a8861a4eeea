"""One HTTP/1.1 connection to an upstream: one exchange at a time, its body as it comes."""

import asyncio
from collections.abc import Callable
from typing import cast

import httptools

from app.errors import EngineProtocolError

_PAUSE_ABOVE_BYTES = 256 * 1024
_LINE_END = b"\r\n"


class ConnectionLostError(Exception):
    """The connection broke; `answered` tells whether any of the answer had come."""

    def __init__(self, answered: bool, problem: str) -> None:
        super().__init__(problem)
        self.answered = answered
        self.problem = problem


class Connection(asyncio.Protocol):
    """One connection; carries one exchange at a time.

    Attributes:
        alive: whether it can carry a request; one that said something unasked can't.
    """

    def __init__(self) -> None:
        self.alive = self.reused = False
        self._timer: asyncio.TimerHandle | None = None
        self._until = 0.0
        self.status = 0
        self.complete = False
        self._transport: asyncio.Transport | None = None
        self._parser = httptools.HttpResponseParser(self)
        self._keep_alive = False
        self.headers_done = False
        self._answered = False
        self._lost: str | None = None
        self._malformed: str | None = None
        self._body: list[bytes] = []
        self._body_bytes = 0
        self._paused = False
        self._changed: asyncio.Future[None] | None = None
        self._take: Callable[[bytes], bool] | None = None
        self._straight: Callable[[bytes], bool | None] | None = None
        self._between_chunks = False
        self._within_s = 0.0
        self._fault: BaseException | None = None
        self._loop = asyncio.get_running_loop()

    # asyncio.Protocol
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports don't derive from asyncio's.
        self._transport = cast(asyncio.Transport, transport)
        self.alive = True

    def data_received(self, data: bytes) -> None:
        self._answered = True
        if self.complete:  # nobody asked for that
            self.close()
            return
        if self._straight is not None and self._between_chunks and not self._body:
            goes_on = self._straight(data)
            if goes_on is not None:
                self._until = self._loop.time() + self._within_s
                if not goes_on:
                    self._take = self._straight = None
                    self._wake()
                return
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            self._malformed = str(error)
            self.close()
        if self._between_chunks and not data.endswith(_LINE_END):
            self._between_chunks = False  # it ends within the next chunk's head
        if self._take is not None and self._body and self._pour(self._take):
            return
        if self._body_bytes > _PAUSE_ABOVE_BYTES and self._transport and not self._paused:
            self._transport.pause_reading()
            self._paused = True
        changed = self._changed
        if changed is not None:
            self._changed = None
            if not changed.done():
                changed.set_result(None)

    def connection_lost(self, exc: Exception | None) -> None:
        self.alive = False
        self._lost = str(exc) if exc else "it closed the connection"
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._wake()

    # httptools callbacks; nobody asks for headers, so that none is called for them
    def on_headers_complete(self) -> None:
        self.status = self._parser.get_status_code()
        self.headers_done = self.status >= 200

    def on_chunk_header(self) -> None:
        self._between_chunks = False

    def on_chunk_complete(self) -> None:
        self._between_chunks = True

    def on_body(self, body: bytes) -> None:
        self._body.append(body)
        self._body_bytes += len(body)

    def on_message_complete(self) -> None:
        # A 1xx answer completes too, and the real one follows.
        self.complete = self.headers_done
        # llhttp knows only here; afterwards its state is that of the next message.
        self._keep_alive = self._parser.should_keep_alive()

    @property
    def reusable(self) -> bool:
        """Whether the next request may use this connection."""
        return self.complete and self.alive and self._keep_alive

    @property
    def has_body(self) -> bool:
        """Whether some of the body can be had without waiting, or it is known to be empty."""
        return bool(self._body) or self.complete

    @property
    def complete_and_read(self) -> bool:
        """Whether there is no more of the body."""
        return self.complete and not self._body

    def start(self, request: bytes, within_s: float) -> asyncio.Future[None]:
        """Send a request, and `change` then; forgets the exchange before.

        Raises:
            ConnectionLostError, EngineProtocolError: it can't be sent.
        """
        self._parser = httptools.HttpResponseParser(self)
        self.status, self.complete = 0, False
        self.headers_done = self._answered = self._between_chunks = False
        if self._body or self._paused:
            self._drop_body()
        if self._transport is not None:
            self._transport.write(request)
        return self.change(self._loop.time() + within_s)

    async def wait_for_body(self, within_s: float) -> None:
        """Until some of the body has come, or it is known to be empty.

        Raises:
            TimeoutError: nothing came in time.
        """
        until = self._loop.time() + within_s
        while not self._body and not self.complete:
            await self.change(until)

    async def next_body(self, within_s: float) -> bytes | None:
        """The next bytes of the body, None at its end.

        Raises:
            TimeoutError: nothing came in time.
        """
        if not self._body and not self.complete:
            await self.wait_for_body(within_s)
        if not self._body:
            return None
        return self.taken()

    async def pour(
        self,
        take: Callable[[bytes], bool],
        within_s: float,
        straight: Callable[[bytes], bool | None] | None = None,
    ) -> None:
        """Hand the body to `take` as it comes, until that says False or the body has ended.

        What begins with a chunk is offered to `straight` first, as it came: where that says None it
        has taken nothing; otherwise it took whole chunks, of which the parser needn't know.

        Nothing is awaited in between, so that a piece costs little more than reading it. Errors of
        `take` are raised here.

        Raises:
            TimeoutError: nothing came in time.
        """
        if self._body and not take(self.taken()):
            return
        self._take, self._within_s, self._fault = take, within_s, None
        self._straight = straight
        try:
            while self._take is not None and not self.complete:
                await self.change(self._loop.time() + within_s)
        finally:
            self._take = self._straight = None
        if (fault := self._fault) is not None:
            self._fault = None
            raise fault

    def _pour(self, take: Callable[[bytes], bool]) -> bool:
        """Whether the pouring goes on, so that nobody need be woken."""
        self._until = self._loop.time() + self._within_s
        try:
            goes_on = take(self.taken())
        except BaseException as error:  # noqa: BLE001 - `pour` raises it
            self._fault, goes_on = error, False
        if not goes_on:
            self._take = self._straight = None
        return goes_on and not self.complete and self._malformed is None

    def taken(self) -> bytes:
        """What is there of the body, which makes room for more."""
        body = self._body[0] if len(self._body) == 1 else b"".join(self._body)
        if self._paused:
            self._drop_body()
        else:
            self._body.clear()
            self._body_bytes = 0
        return body

    def close(self) -> None:
        """Drop it."""
        self.alive = False
        if self._transport is not None:
            self._transport.abort()

    def _drop_body(self) -> None:
        """Make room for more, which may have been held back."""
        self._body.clear()
        self._body_bytes = 0
        if self._paused and self._transport is not None:
            self._transport.resume_reading()
            self._paused = False

    def change(self, until: float | None = None) -> asyncio.Future[None]:
        """Done when something changes; a bare future, since this is for each piece of a stream.

        It fails with TimeoutError where nothing does until then, by the event loop's clock; None:
        until the same time as before.

        Raises:
            ConnectionLostError, EngineProtocolError: nothing will change any more.
        """
        if self._malformed is not None:
            raise EngineProtocolError("", self._malformed)
        if self._lost is not None:
            raise ConnectionLostError(self._answered, self._lost)
        if until is not None:
            self._until = until
        if self._timer is None or self._timer.when() > self._until:
            self._set_timer()
        self._changed = changed = self._loop.create_future()
        return changed

    def _set_timer(self) -> None:
        """One timer serves all waits: it is set again only when it fires before its time."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_at(self._until, self._expire)

    def _expire(self) -> None:
        self._timer = None
        if self._changed is None or self._changed.done():
            return  # whoever waits next sets it again
        if self._loop.time() < self._until:
            self._set_timer()
        else:
            self._changed.set_exception(TimeoutError())

    def _wake(self) -> None:
        changed, self._changed = self._changed, None
        if changed is not None and not changed.done():
            changed.set_result(None)
