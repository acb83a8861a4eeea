"""Looking at another server again only if the last look is old, and never for long."""

import time
from collections.abc import Awaitable, Callable

import anyio

# A probe that waits for longer may be taken for a gateway that is dead.
_WAIT_S = 0.5


class Looks:
    """When a server was last looked at. All belongs to one event loop.

    Args:
        look: looks once, and keeps what it saw by itself; it raises nothing.
    """

    def __init__(self, look: Callable[[], Awaitable[object]]) -> None:
        self._look = look
        self._looking = anyio.Lock()
        self._begun_at: float | None = None

    async def now(self) -> None:
        """Look, however long that takes."""
        self._begun_at = time.monotonic()
        await self._look()

    async def if_older(self, than_s: float, *, within_s: float = _WAIT_S) -> None:
        """Look, unless a look began within the last `than_s` seconds; gives up in time.

        Who asks while somebody else looks waits for that.
        """
        if self._is_older(than_s) or self._looking.locked():
            with anyio.move_on_after(within_s):
                async with self._looking:
                    if self._is_older(than_s):
                        await self.now()

    def _is_older(self, than_s: float) -> bool:
        return self._begun_at is None or time.monotonic() - self._begun_at > than_s
