"""uvicorn's HTTP protocol with bounds: no client holds memory or a connection for nothing.

uvicorn and llhttp bound neither the size of headers nor the time that a request takes to arrive,
and give up on a client that reads nothing only when it leaves. Timers are set only for what doesn't
arrive in one piece, so that an ordinary request costs none.

Source: uvicorn 0.54 protocols/http/httptools_impl.py, whose methods are overridden here.
"""

import asyncio
from collections import Counter
from collections.abc import Callable
from typing import Any

import httptools
from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import RequestResponseCycle
from uvicorn.server import ServerState

from app.lane.exchange import Exchange
from app.lane.heads import cut_request
from app.lane.lane import Lane
from app.settings import WireSettings
from app.wire import refusals
from app.wire.cycle import Cycle
from app.wire.refusals import Refusal
from app.wire.straight import StraightProtocol, no_lane

# With two of these, two readers of one request could each believe another one.
_ONCE = frozenset({b"authorization", b"content-type", b"host"})

# What is left of a body after its answer is read, so that the connection can be kept.
_LEFT_BYTES = 2**20
# Requests of one connection that may wait while another is answered.
_WAITING = 32
_BODY = frozenset({b"content-length", b"transfer-encoding"})


class _RefusedError(Exception):
    """Stops the parser; `_fault` says why."""


class GuardedProtocol(StraightProtocol):
    """One client's connection."""

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
        *,
        limits: WireSettings,
        refused: Counter[str],
        lane: Callable[[], Lane | None] = no_lane,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop, lane=lane)
        # What follows the last request of a connection is an error, not one more request.
        self.parser.set_dangerous_leniencies(lenient_data_after_close=False)
        self._limits = limits
        self._refused = refused
        self._fault: Refusal | None = None
        self._once: set[bytes] = set()
        self._is_deaf = False
        # The parser's whereabouts; bytes of a head are counted by reads, but for the first of one
        # that begins behind another request.
        self._in_head = self._in_body = False
        self._head_bytes = 0
        self._body_bytes = self._body_read = 0
        self._head_timer: asyncio.TimerHandle | None = None
        self._body_timer: asyncio.TimerHandle | None = None
        self._send_timer: asyncio.TimerHandle | None = None
        self._end_timer: asyncio.TimerHandle | None = None

    # asyncio.Protocol
    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if len(self.connections) > self._limits.connections:
            self._refuse(refusals.FULL)
        else:
            self._await_head()

    def connection_lost(self, exc: Exception | None) -> None:
        for timer in (self._head_timer, self._body_timer, self._send_timer, self._end_timer):
            if timer is not None:
                timer.cancel()
        self._is_deaf = True
        super().connection_lost(exc)
        self._unset_keepalive_if_required()

    def data_received(self, data: bytes) -> None:
        if self._is_deaf:
            return
        self._idle_until = None
        if self._lane is not None and self._is_between_requests():
            rest = self._straight(self._lane, data)
            if rest is None:
                self._head_came()
                self._body_bytes = self._body_read = 0
                return
            data = rest
        self._parse(data)

    def _parse(self, data: bytes) -> None:
        is_new = not (self._in_head or self._in_body or self._head_bytes)
        if self._in_body:
            self._body_bytes += len(data)
            if self.cycle.response_complete and self._body_bytes - self._body_read > _LEFT_BYTES:
                self._linger()
                return
        else:
            self._head_bytes += len(data)
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            # Nothing is upgraded: the request is answered as it is, and is this connection's last.
            self._hear_no_more()
        except httptools.HttpParserError:
            self._refuse(self._fault or refusals.MALFORMED)
        else:
            if is_new and self._lane is not None and (cut := cut_request(data)) is not None:
                self._head_digest = cut.digest
            self._watch()

    def pause_writing(self) -> None:
        super().pause_writing()
        if self._send_timer is None:
            self._send_timer = self.loop.call_later(self._limits.send_stall_s, self._give_up)

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._send_timer is not None:
            self._send_timer.cancel()
            self._send_timer = None

    # httptools
    def on_message_begin(self) -> None:
        if len(self.pipeline) >= _WAITING:
            self._stop(refusals.PIPELINED)
        super().on_message_begin()
        self._in_head = True
        self._once.clear()

    def on_url(self, url: bytes) -> None:
        super().on_url(url)
        if len(self.url) > self._limits.target_bytes:
            self._stop(refusals.TARGET)

    def on_header(self, name: bytes, value: bytes) -> None:
        name = name.lower()
        if name in _ONCE:
            if name in self._once:
                self._stop(refusals.REPEATED)
            self._once.add(name)
        elif name == b"expect" and value.lower() == b"100-continue":
            self.expect_100_continue = True
        self.headers.append((name, value))

    def on_headers_complete(self) -> None:
        self._check_head()
        self._in_head = False
        self._head_bytes = self._body_bytes = self._body_read = 0
        self._head_came()
        super().on_headers_complete()
        self._in_body = True

    def on_message_complete(self) -> None:
        super().on_message_complete()
        self._in_body = False

    # uvicorn
    def on_response_complete(self) -> None:
        self._body_read = self._body_bytes
        super().on_response_complete()
        if self._is_deaf and self.under_way == 0 and not self.transport.is_closing():
            self._linger()
        elif self.transport.is_closing():
            self._end_after(self._limits.send_stall_s, self.transport.abort)

    def timeout_keep_alive_handler(self) -> None:
        super().timeout_keep_alive_handler()
        if self.transport.is_closing():
            self._end_after(self._limits.send_stall_s, self.transport.abort)

    # ours
    def _head_came(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _is_between_requests(self) -> bool:
        """Whether the next byte is the first of a request, and nothing is being answered."""
        cycle = self.cycle
        return (cycle is None or cycle.response_complete) and not (
            self._in_head or self._in_body or self._head_bytes or self.transport.is_closing()
        )

    def _check_head(self) -> None:
        if b"%00" in self.url:  # databases have no such text
            self._stop(refusals.NUL)
        version = self.parser.get_http_version()
        if version not in ("1.1", "1.0"):
            self._stop(refusals.VERSION)
        if version == "1.1" and b"host" not in self._once:
            self._stop(refusals.HOST)
        if self.parser.should_upgrade() and any(name in _BODY for name, _ in self.headers):
            # The parser takes what follows for another protocol's, not for the body.
            self._stop(refusals.UPGRADE)
        if len(self.headers) > self._limits.headers:
            self._stop(refusals.HEAD)
        if self._head_bytes > self._limits.head_bytes:  # a body may have come along
            size = len(self.url) + sum(len(name) + len(value) + 4 for name, value in self.headers)
            if size > self._limits.head_bytes:
                self._stop(refusals.HEAD)

    def _stop(self, fault: Refusal) -> None:
        """Leave the parser, from within its callbacks."""
        self._fault = fault
        raise _RefusedError

    def _watch(self) -> None:
        """See to it that what has begun will end."""
        if self._in_body:
            if self._body_timer is None:
                self._await_body(self.loop.time())
        elif self._head_bytes > self._limits.head_bytes:
            self._refuse(refusals.HEAD)
        elif self.cycle is None or self.cycle.response_complete:
            self._await_head()

    def _await_head(self) -> None:
        if self._head_timer is None:
            self._head_timer = self.loop.call_later(self._limits.head_s, self._end_late_head)

    def _end_late_head(self) -> None:
        if self._head_bytes:
            self._refuse(refusals.HEAD_TIMEOUT)
        else:  # an idle client would take words for the answer to its next request
            self.timeout_keep_alive_handler()

    def _await_body(self, began: float) -> None:
        self._body_timer = self.loop.call_later(
            self._limits.body_window_s, self._look_at_body, began, self._body_bytes, self.cycle
        )

    def _look_at_body(self, began: float, seen_bytes: int, cycle: RequestResponseCycle) -> None:
        self._body_timer = None
        if not self._in_body or self._is_deaf:
            return
        if self.cycle is not cycle:  # another request's body by now
            self._await_body(self.loop.time())
            return
        least = self._limits.body_bytes_per_s * self._limits.body_window_s
        # What waits for us isn't the client's fault.
        is_slow = not self.flow.read_paused and self._body_bytes - seen_bytes < least
        if is_slow or self.loop.time() - began > self._limits.body_s:
            self._refuse(refusals.BODY_TIMEOUT)
        else:
            self._await_body(began)

    def _refuse(self, refusal: Refusal) -> None:
        """Tell the client why, unless an answer is under way: then it is the last."""
        if self._is_deaf or self.transport.is_closing():
            return
        self._refused[refusal.code] += 1
        answering = self._answering
        if answering is None or answering.response_complete:
            self.transport.write(refusal.answer())
            self._linger()
        elif answering is self.cycle and self._in_body:
            # Its body is at fault, and the app waits for it.
            if not answering.response_started:
                self.transport.write(refusal.answer())
            answering.response_started = True
            self._hang_up(answering)
            self._linger()
        else:
            self._hear_no_more()

    def _hear_no_more(self) -> None:
        """Answer what has come whole, and close."""
        self._is_deaf = True
        if self._in_body and self.pipeline:
            self.pipeline.popleft()
        answering = self._answering
        if answering is None or answering.response_complete:
            self._linger()
            return
        last = self.pipeline[0][0] if self.pipeline else answering
        assert isinstance(last, Cycle | Exchange)
        last.is_last = True

    def _linger(self) -> None:
        """Close, but not before the client had time to read: unread input would reset it."""
        self._is_deaf = True
        self._unset_keepalive_if_required()
        self.flow.resume_reading()
        if self.transport.can_write_eof():
            self.transport.write_eof()
        self._end_after(self._limits.linger_s, self._give_up)

    def _give_up(self) -> None:
        """Drop the connection: the client doesn't read."""
        self.transport.abort()

    def _end_after(self, seconds: float, end: Callable[[], None]) -> None:
        if self._end_timer is None:
            self._end_timer = self.loop.call_later(seconds, end)
