"""Looking at another server again only if the last look is old, and never for long."""

import asyncio
import time
from collections.abc import Awaitable, Callable

# A probe that waits for longer may be taken for a gateway that is dead.
_WAIT_S = 0.5
_LOOK_S = 10.0


class Looks:
    """When a server was last looked at. All belongs to one event loop.

    A look goes on when those who wait for it have given up: a busy server that needs longer than
    anybody waits would otherwise never be seen at all.

    Args:
        look: looks once, and keeps what it saw by itself; it raises nothing.
    """

    def __init__(self, look: Callable[[], Awaitable[object]]) -> None:
        self._look = look
        self._begun_at: float | None = None
        self._looking: asyncio.Task[None] | None = None

    async def now(self) -> None:
        """Look, however long that takes."""
        self._begun_at = time.monotonic()
        await self._look()

    def begin_if_older(self, than_s: float) -> None:
        """Begin to look, unless a look began within the last `than_s` seconds; waits for nothing.

        Must be called in the event loop.
        """
        if self._looking is None and self._is_older(than_s):
            self._looking = asyncio.create_task(self._in_time())
            self._looking.add_done_callback(self._ended)

    async def if_older(self, than_s: float, *, within_s: float = _WAIT_S) -> None:
        """The same, and wait for it, or for one that others began; gives up waiting in time."""
        self.begin_if_older(than_s)
        if self._looking is not None:
            await asyncio.wait({self._looking}, timeout=within_s)

    def close(self) -> None:
        """Give up a look that is under way."""
        if self._looking is not None:
            self._looking.cancel()

    async def _in_time(self) -> None:
        async with asyncio.timeout(_LOOK_S):
            await self.now()

    def _ended(self, looking: asyncio.Task[None]) -> None:
        self._looking = None
        if not looking.cancelled():
            looking.exception()  # of a look that took too long; the next one may not

    def _is_older(self, than_s: float) -> bool:
        return self._begun_at is None or time.monotonic() - self._begun_at > than_s
