"""Work that takes long, done beside the event loop, a few at a time."""

from collections.abc import Callable
from typing import TypeVar

import anyio

Made = TypeVar("Made")

# Each may take as much memory as the longest prompt; the cores would be shared among more anyway.
_AT_ONCE = 4


class Aside:
    """Worker threads for prompts, apart from those that the rest of the gateway waits for."""

    def __init__(self) -> None:
        self._room = anyio.CapacityLimiter(_AT_ONCE)

    async def done(self, work: Callable[[], Made], *, is_long: bool) -> Made:
        """What the work gives; a long one is done in a worker thread, when there is one."""
        if not is_long:
            return work()
        return await anyio.to_thread.run_sync(work, limiter=self._room)
