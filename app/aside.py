"""Work on prompts that takes long, done beside the event loop, a few at a time."""

from collections.abc import Callable
from typing import TypeVar

import anyio

Made = TypeVar("Made")

# From here on, rendering and encoding take long enough for other requests to notice.
LONG_CHARACTERS = 16_384
# From here on they take a gigabyte for each ten million, also where those are few tokens.
_HUGE_CHARACTERS = 2**20
_AT_ONCE = 4


class Aside:
    """Worker threads for prompts, apart from those that the rest of the gateway waits for."""

    def __init__(self) -> None:
        self._room = anyio.CapacityLimiter(_AT_ONCE)
        self._room_for_huge = anyio.CapacityLimiter(1)

    async def done(self, work: Callable[[], Made], *, characters: int) -> Made:
        """What work on so many characters gives; a long one is done in a thread, when it is its
        turn."""
        if characters < LONG_CHARACTERS:
            return work()
        limiter = self._room if characters < _HUGE_CHARACTERS else self._room_for_huge
        return await anyio.to_thread.run_sync(work, limiter=limiter)
