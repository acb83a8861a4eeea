"""Whether the time of day may be believed where something is deleted for being old.

A clock that is set wrong for a moment, as by a bad time server, must not cost what is kept.
"""

import time
from collections.abc import Callable

_TOLERATED_S = 60.0
_DOUBTED_S = 3_600.0


class SteadyClock:
    """Compares the time of day with the monotonic clock, which nobody sets.

    Args:
        now: seconds since 1970.
        ticks: seconds of the monotonic clock.
    """

    def __init__(
        self, *, now: Callable[[], float] = time.time, ticks: Callable[[], float] = time.monotonic
    ) -> None:
        self._now = now
        self._ticks = ticks
        self._seen = now(), ticks()
        self._doubted_until = self._seen[1]

    def now(self) -> float:
        """Seconds since 1970, right or wrong."""
        return self._now()

    def is_steady(self) -> bool:
        """False for an hour after a jump, and longer if it jumps again; ask every minute or so."""
        now, ticks = self._now(), self._ticks()
        jump_s = (now - self._seen[0]) - (ticks - self._seen[1])
        self._seen = now, ticks
        if abs(jump_s) > _TOLERATED_S:
            self._doubted_until = ticks + _DOUBTED_S
        return ticks >= self._doubted_until
