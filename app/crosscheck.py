"""The engine's own count of re-used tokens, followed through its restarts.

The ledger adds up what responses said; this adds up `sglang:cached_tokens_total`. The two should
agree, and the report prints the difference.
"""

import time
from datetime import UTC, datetime, timedelta

import anyio
import structlog

from app.engine import EngineClient
from app.errors import EngineError
from app.looks import Looks
from cache.engine_metrics import CounterTrack, EngineDelta, parse_engine_metrics
from cache.errors import MetricsFormatError
from cache.guard_metrics import GuardStatus, parse_guard_metrics

_POLL_S = 15.0
_NEXT_TRACK = timedelta(days=1)
_WATCH_S = 10.0


class EngineCounters:
    """Tracks of one engine's counters, advanced from time to time; another begins each day.

    `guard` is what the guard plugin said at the last look; `guard_known` is False where that look
    failed, so that a plugin that said nothing isn't taken for one that is missing.
    """

    def __init__(self, client: EngineClient) -> None:
        self._client = client
        self._tracks: list[CounterTrack] = []
        self._seen_at: float | None = None
        self.looks = Looks(self.advance)
        self.guard = GuardStatus()
        self.guard_known = False
        self._log = structlog.get_logger(engine=client.url)

    async def watch(self) -> None:
        """Advance for ever: what an engine counts between the last look and its end is lost."""
        while True:
            with anyio.move_on_after(_WATCH_S):
                await self.looks.now()
            await anyio.sleep(_POLL_S if self._tracks else 1.0)

    def knows_guard(self, within_s: float) -> bool:
        """Whether what the guard said is of the last seconds."""
        seen_at = self._seen_at
        return self.guard_known and seen_at is not None and time.monotonic() - seen_at <= within_s

    async def advance(self) -> EngineDelta | None:
        """What the engine has counted since the first look; None where it can't be read now."""
        try:
            asked_at = time.monotonic()
            text = await self._client.metrics()
            snapshot = parse_engine_metrics(text, at=datetime.now(UTC))
            self.guard, self.guard_known = parse_guard_metrics(text), True
            self._seen_at = asked_at
        except EngineError:
            self.guard, self.guard_known = GuardStatus(), False
            return None
        except MetricsFormatError as error:
            self._log.warning("engine_metrics_unreadable", problem=str(error))
            return None
        self._tracks = [track.advance(snapshot) for track in self._tracks]
        if not self._tracks or snapshot.at - self._tracks[-1].total.since >= _NEXT_TRACK:
            self._tracks.append(CounterTrack.start(snapshot))
            # The first, and two of which the older one is a day long at least.
            self._tracks = [self._tracks[0], *self._tracks[1:][-2:]]
        return self._tracks[0].total

    @property
    def windows(self) -> tuple[EngineDelta, ...]:
        """What the engine has counted until the last look: since the first one, and since later
        ones, for when the ledger's rows don't reach back to that any more."""
        return tuple(track.total for track in self._tracks)
