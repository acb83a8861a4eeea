"""Time that is held against an adapter. Pure."""

import time
from collections.abc import Callable

# A process that isn't run looks at its watch rarely; only this much between two looks counts.
STEP_S = 0.1


class Stopwatch:
    """Seconds since its start, and how many of them the adapter is to blame for.

    Args:
        clock: monotonic seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._started_s = self._looked_s = clock()
        self._waited_s = 0.0

    @property
    def elapsed_s(self) -> float:
        return self._clock() - self._started_s

    def waited_s(self) -> float:
        """Look: as much as `STEP_S` of the time since the last look is added."""
        now_s = self._clock()
        self._waited_s += min(now_s - self._looked_s, STEP_S)
        self._looked_s = now_s
        return self._waited_s
