"""How fast the engine computes prompts, followed through its restarts."""

import anyio
import structlog

from app.engine import EngineClient
from app.errors import EngineError
from cache.engine_loads import EngineLoads, parse_loads
from cache.errors import EngineLoadsError
from cache.prefill_speed import PrefillSpeed, PrefillTrack

# Short, so that few prefills fall between two looks: a long one then stands by itself.
_POLL_S = 2.0


class EngineSpeed:
    """One engine's prefill speed. `loads` is the last look; None while it can't be read."""

    def __init__(self, client: EngineClient) -> None:
        self.loads: EngineLoads | None = None
        self._client = client
        self._track = PrefillTrack()
        self._problem: str | None = None
        self._log = structlog.get_logger(engine=client.url)

    @property
    def speed(self) -> PrefillSpeed | None:
        """Measured by this gateway; None until the engine has computed enough."""
        return self._track.speed

    async def watch(self) -> None:
        """Look at the engine for ever."""
        while True:
            await self.advance()
            await anyio.sleep(_POLL_S)

    async def advance(self) -> None:
        """Look at the engine once."""
        try:
            self.loads = parse_loads(await self._client.loads())
        except EngineError:
            self._lose()
        except EngineLoadsError as error:
            if str(error) != self._problem:
                self._log.warning("engine_loads_unreadable", problem=str(error))
            self._problem = str(error)
            self._lose()
        else:
            self._problem = None
            self._track = self._track.advance(self.loads)

    def _lose(self) -> None:
        self.loads = None
        self._track = self._track.away()
