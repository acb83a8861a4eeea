"""The engine's own count of re-used tokens, followed through its restarts.

The ledger adds up what responses said; this adds up `sglang:cached_tokens_total`. The two should
agree, and the report prints the difference.
"""

import time
from datetime import UTC, datetime

import anyio
import structlog

from app.engine import EngineClient
from app.errors import EngineError
from cache.engine_metrics import CounterTrack, EngineDelta, parse_engine_metrics
from cache.errors import MetricsFormatError
from cache.guard_metrics import GuardStatus, parse_guard_metrics

_POLL_S = 15.0
_WATCH_S = 10.0
# Who asks what is degraded isn't kept waiting by an engine that is silent.
_LOOK_S = 0.5


class EngineCounters:
    """A track of one engine's counters, advanced from time to time.

    `guard` is what the guard plugin said at the last look; `guard_known` is False where that look
    failed, so that a plugin that said nothing isn't taken for one that is missing.
    """

    def __init__(self, client: EngineClient) -> None:
        self._client = client
        self._track: CounterTrack | None = None
        self._looked_at: float | None = None
        self.guard = GuardStatus()
        self.guard_known = False
        self._log = structlog.get_logger(engine=client.url)

    async def watch(self) -> None:
        """Advance for ever: what an engine counts between the last look and its end is lost."""
        while True:
            with anyio.move_on_after(_WATCH_S):
                await self.advance()
            await anyio.sleep(_POLL_S if self._track is not None else 1.0)

    async def look_if_older(self, than_s: float) -> None:
        """Advance, unless that was done within the last `than_s` seconds; gives up in time."""
        if self._looked_at is None or time.monotonic() - self._looked_at > than_s:
            with anyio.move_on_after(_LOOK_S):
                await self.advance()

    async def advance(self) -> EngineDelta | None:
        """What the engine has counted since the first look; None where it can't be read now."""
        try:
            text = await self._client.metrics()
            self._looked_at = time.monotonic()
            snapshot = parse_engine_metrics(text, at=datetime.now(UTC))
            self.guard, self.guard_known = parse_guard_metrics(text), True
        except EngineError:
            self.guard, self.guard_known = GuardStatus(), False
            return None
        except MetricsFormatError as error:
            self._log.warning("engine_metrics_unreadable", problem=str(error))
            return None
        track = self._track
        self._track = CounterTrack.start(snapshot) if track is None else track.advance(snapshot)
        return self._track.total
