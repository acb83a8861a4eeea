"""Requests that the lane takes, before any parser sees them.

A request comes in one read, or its head in one and its body in others, as many clients send them.
One whose head is known is held back until its body is there; where that takes longer than a moment,
or the lane declines it, the parser gets all of it, as if it had come just then.
"""

import asyncio
from collections.abc import Callable
from http import HTTPStatus
from typing import Any, NamedTuple

from uvicorn.config import Config
from uvicorn.server import ServerState

from app.lane.heads import CutRequest, KnownHead, cut_request
from app.lane.lane import Lane
from app.wire.cycle import Cycle
from app.wire.lean import LeanProtocol

_MOMENT_S = 0.2


class _Held(NamedTuple):
    """A request of which not all has come; it is held until a time of the event loop's."""

    head: KnownHead
    cut: CutRequest
    data: bytes
    until: float


def no_lane() -> Lane | None:
    """For a server without one."""
    return None


class StraightProtocol(LeanProtocol):
    """One client's connection."""

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
        *,
        lane: Callable[[], Lane | None] = no_lane,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self._lane = lane()
        self._held: _Held | None = None
        # Of the request that the parser is given, where it is the only one in its reads.
        self._head_digest: bytes | None = None

    def connection_lost(self, exc: Exception | None) -> None:
        self._held = None
        super().connection_lost(exc)

    def shutdown(self) -> None:
        self._let_go()
        super().shutdown()

    def timeout_keep_alive_handler(self) -> None:
        if self._held is not None:
            self._let_go()
        else:
            super().timeout_keep_alive_handler()

    def on_message_begin(self) -> None:
        self._head_digest = None
        super().on_message_begin()

    def on_response_complete(self) -> None:
        if self._head_digest is not None and self._lane is not None:
            # All that looks at heads let this one pass.
            cycle = self.cycle
            if isinstance(cycle, Cycle) and cycle.keep_alive and cycle.status == HTTPStatus.OK:
                self._lane.heads.learn(self._head_digest, cycle.scope)
            self._head_digest = None
        super().on_response_complete()

    def _straight(self, lane: Lane, data: bytes) -> bytes | None:
        """What the parser is to be given of a read between two requests; None: it is the lane's."""
        held = self._held
        if held is None:
            cut = cut_request(data)
            head = None if cut is None else lane.heads.find(cut.digest)
            until = None
        else:
            self._held, head, cut, until = None, held.head, held.cut, held.until
            data = held.data + data
        if head is None or cut is None or len(data) > cut.end:
            return data
        if len(data) < cut.end:
            # The moment is the whole body's: a byte now and then doesn't make it longer.
            until = self.loop.time() + _MOMENT_S if until is None else until
            self._hold(_Held(head, cut, data, until))
            return None
        exchange = lane.take(head, data[cut.body_at :], self)
        if exchange is None:
            return data
        self.cycle = exchange  # type: ignore[assignment]
        self._answering = exchange
        assert exchange.task is not None
        exchange.task.add_done_callback(self.tasks.discard)
        self.tasks.add(exchange.task)
        return None

    def _hold(self, held: _Held) -> None:
        self._held = held
        self._idle_until = until = held.until
        timer = self._idle_timer
        if timer is None or timer.when() > until:
            if timer is not None:
                timer.cancel()
            self._idle_timer = self.loop.call_at(until, self._end_idle)

    def _let_go(self) -> None:
        """The rest takes longer: from here on, the usual bounds hold."""
        held, self._held = self._held, None
        if held is not None:
            self._idle_until = None
            self._parse(held.data)

    def _parse(self, data: bytes) -> None:
        """Give the parser what was read."""
        raise NotImplementedError
