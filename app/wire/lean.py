"""uvicorn's HTTP protocol with what a request costs brought down: our cycle, and fewer timers.

Source: uvicorn 0.54 protocols/http/httptools_impl.py, whose methods are overridden here.
"""

import asyncio
from typing import Any
from urllib.parse import unquote

import httptools
from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle
from uvicorn.server import ServerState

from app.hot.chunks import ChunkWriter, put_writer
from app.hot.departure import cut_short, hang_up, put_departure
from app.lane.exchange import Exchange
from app.wire.cycle import Cycle


class LeanProtocol(HttpToolsProtocol):
    """One client's connection; `_answering` is the request that is answered now, or was last."""

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self._answering: RequestResponseCycle | Exchange | None = None
        self._chunks: ChunkWriter | None = None
        self._idle_timer: asyncio.TimerHandle | None = None
        self._idle_until: float | None = None

    # asyncio.Protocol
    def connection_lost(self, exc: Exception | None) -> None:
        if self._idle_timer is not None:
            self._idle_timer.cancel()
        # uvicorn tells only the request that was read last.
        if self._answering is not None and not self._answering.response_complete:
            self._hang_up(self._answering)
        self.pipeline.clear()
        super().connection_lost(exc)

    # httptools
    def on_headers_complete(self) -> None:
        scope, parser, before = self.scope, self.parser, self.cycle
        version = parser.get_http_version()
        target = httptools.parse_url(self.url)
        path = target.path.decode("ascii")
        scope["method"] = parser.get_method().decode("ascii")
        scope["http_version"] = version
        scope["path"] = unquote(path) if "%" in path else path
        scope["raw_path"], scope["query_string"] = target.path, target.query or b""
        self.cycle = Cycle(
            scope=scope,
            transport=self.transport,
            flow=self.flow,
            logger=self.logger,
            access_logger=self.access_logger,
            access_log=False,
            default_headers=self.server_state.default_headers,
            message_event=asyncio.Event(),
            expect_100_continue=self.expect_100_continue,
            keep_alive=version != "1.0" and parser.should_keep_alive(),
            on_response=self.on_response_complete,
        )
        if before is None or before.response_complete:
            self._start_asgi_task(self.cycle, self.app)
        else:
            # Reading goes on, unlike in uvicorn, which wouldn't see the first one's client leave.
            self.pipeline.appendleft((self.cycle, self.app))

    # uvicorn
    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        self._answering = cycle
        put_departure(cycle.scope)  # type: ignore[arg-type]
        self._chunks = None
        if cycle.scope["http_version"] != "1.0":  # which knows no chunks
            self._chunks = ChunkWriter(self.transport, self.flow)
            put_writer(cycle.scope, self._chunks)  # type: ignore[arg-type]
        super()._start_asgi_task(cycle, app)

    def on_response_complete(self) -> None:
        self.server_state.total_requests += 1
        if self.transport.is_closing():
            return
        self.flow.resume_reading()
        if self.pipeline:
            self._start_asgi_task(*self.pipeline.pop())
            return
        self._idle_until = self.loop.time() + self.timeout_keep_alive
        if self._idle_timer is None:
            self._idle_timer = self.loop.call_at(self._idle_until, self._end_idle)

    def _unset_keepalive_if_required(self) -> None:
        """The client isn't idle; the timer stays, since it is set again only where it fires."""
        self._idle_until = None

    def _unsupported_upgrade_warning(self) -> None:
        """Nothing to warn of: curl offers an upgrade with every request over --http2."""

    # ours
    @property
    def under_way(self) -> int:
        """How many of the requests that came are not yet answered."""
        answering = self._answering
        if answering is None or answering.response_complete:
            return 0
        return 1 + len(self.pipeline)

    def cut(self) -> None:
        """Have the request that is answered end now, as the last of the connection."""
        answering = self._answering
        if answering is None or answering.response_complete:
            return
        self.pipeline.clear()
        answering.keep_alive = False
        if isinstance(answering, Exchange):
            answering.cut()
        else:
            cut_short(answering.scope)  # type: ignore[arg-type]

    def _hang_up(self, cycle: RequestResponseCycle | Exchange) -> None:
        """Let the app believe that the client of the request that is answered is gone."""
        if isinstance(cycle, Exchange):
            cycle.left()
            return
        cycle.disconnected = True
        cycle.message_event.set()
        if self._chunks is not None:
            self._chunks.gone = True
        hang_up(cycle.scope)  # type: ignore[arg-type]

    def _end_idle(self) -> None:
        """Close, if nothing was heard since the last answer for long enough."""
        self._idle_timer = None
        until = self._idle_until
        if until is None:
            return  # the next answer's end sets it again
        if self.loop.time() < until:
            self._idle_timer = self.loop.call_at(until, self._end_idle)
        else:
            self.timeout_keep_alive_handler()
