"""How much an engine has to do and how fast it computes prompts, followed through its restarts."""

import time

import anyio
import structlog

from app.engine import EngineClient
from app.errors import EngineError
from app.fleet.load import LoadMeter
from cache.engine_loads import EngineLoads, parse_loads
from cache.errors import EngineLoadsError
from cache.prefill_speed import PrefillSpeed, PrefillTrack

# The speed is measured between looks of this distance: short, so that few prefills fall between
# two and a long one stands by itself, but long enough for small ones to add up.
_POLL_S = 2.0
# While requests are under way, the load is what the next one is routed by.
_BUSY_POLL_S = 0.25


class EngineSpeed:
    """One engine's load and prefill speed. `loads` is the last look; None while it can't be read.

    Args:
        meter: told of each look; while it counts requests under way, looks are more frequent.
    """

    def __init__(self, client: EngineClient, *, meter: LoadMeter | None = None) -> None:
        self.loads: EngineLoads | None = None
        self.speed: PrefillSpeed | None = None
        """Measured by this gateway; None until the engine has computed enough."""
        self._client = client
        self._meter = meter or LoadMeter()
        self._track = PrefillTrack()
        self._tracked_at: float | None = None
        self._problem: str | None = None
        self._log = structlog.get_logger(engine=client.url)

    async def watch(self) -> None:
        """Look at the engine for ever."""
        while True:
            now = time.monotonic()
            due = self._tracked_at is None or now - self._tracked_at >= _POLL_S
            await (self.advance() if due else self.look())
            await self._pause()

    async def _pause(self) -> None:
        """Short while any gateway has requests there."""
        for _ in range(round(_POLL_S / _BUSY_POLL_S)):
            await anyio.sleep(_BUSY_POLL_S)
            if self._meter.is_busy:
                return

    async def advance(self) -> None:
        """Look at the engine once, and measure its speed."""
        await self.look()
        self._tracked_at = time.monotonic()
        self._track = self._track.advance(self.loads) if self.loads else self._track.away()
        self.speed = self._track.speed

    async def look(self) -> None:
        """Look at the engine once."""
        asked_at = time.monotonic()
        try:
            self.loads, self._problem = parse_loads(await self._client.loads()), None
        except EngineError:
            self.loads = None
        except EngineLoadsError as error:
            if str(error) != self._problem:
                self._log.warning("engine_loads_unreadable", problem=str(error))
            self._problem = str(error)
            self.loads = None
        speed = self.speed.tokens_per_s if self.speed else None
        self._meter.looked(self.loads, asked_at=asked_at, tokens_per_s=speed)
