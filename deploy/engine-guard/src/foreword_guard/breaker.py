"""The breaker: a pure state machine that says whether the tier may be asked.

                 `failures` in a row
        CLOSED ───────────────────────▶ OPEN
          ▲                              │
          └──── close(), by the prober ──┘

Nothing here waits, logs or knows of LMCache; the clock is given. Only the prober closes it, off
the scheduler's thread, so that no request ever pays for a probe. A tier that answers probes but
keeps missing its deadline would flap: each opening that follows another without a success in
between doubles the pause before the prober may close it again, up to eight times `retry_s` (or
2**`max_doublings` times).
"""

import threading
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

_MAX_DOUBLINGS = 3


class BreakerState(StrEnum):
    """Whether the tier is asked."""

    CLOSED = "closed"
    OPEN = "open"


@dataclass(frozen=True, slots=True, kw_only=True)
class BreakerStatus:
    """What an operator sees of a breaker."""

    state: BreakerState
    failures_total: int
    openings_total: int
    reason: str | None


class Breaker:
    """Counts failures and decides; safe to call from any thread.

    Args:
        failures: failures in a row that open it, >= 1.
        retry_s: shortest time that it stays open, seconds.
        clock: monotonic seconds.
        max_doublings: how often the pause is doubled at most.
    """

    def __init__(
        self,
        *,
        failures: int,
        retry_s: float,
        clock: Callable[[], float],
        max_doublings: int = _MAX_DOUBLINGS,
    ) -> None:
        self._limit = failures
        self._retry_s = retry_s
        self._clock = clock
        self._max_doublings = max_doublings
        self._lock = threading.Lock()
        self._in_a_row = 0
        self._doublings = 0
        self._failures_total = 0
        self._openings_total = 0
        self._opened_at: float | None = None
        self._reason: str | None = None

    @property
    def closed(self) -> bool:
        """True while the tier may be asked."""
        return self._opened_at is None

    @property
    def status(self) -> BreakerStatus:
        """A consistent snapshot."""
        with self._lock:
            return BreakerStatus(
                state=BreakerState.CLOSED if self.closed else BreakerState.OPEN,
                failures_total=self._failures_total,
                openings_total=self._openings_total,
                reason=self._reason,
            )

    def failed(self, reason: str) -> bool:
        """Count a failure; True when this one opened the breaker."""
        with self._lock:
            self._failures_total += 1
            self._in_a_row += 1
            if self._opened_at is not None or self._in_a_row < self._limit:
                return False
            return self._open(reason)

    def trip(self, reason: str) -> bool:
        """Open at once, whatever the count; True unless it was open already."""
        with self._lock:
            if self._opened_at is not None:
                return False
            return self._open(reason)

    def succeeded(self) -> None:
        """The tier did what it was asked in time: forget the failures before."""
        if not self._in_a_row and not self._doublings:
            return
        with self._lock:
            if self._opened_at is None:
                self._in_a_row = 0
                self._doublings = 0

    def may_close(self) -> bool:
        """True when it is open and has been for as long as it must."""
        with self._lock:
            if self._opened_at is None:
                return False
            pause_s = self._retry_s * 2.0 ** max(self._doublings - 1, 0)
            return self._clock() - self._opened_at >= pause_s

    def close(self) -> None:
        """Let requests through again."""
        with self._lock:
            self._opened_at = None
            self._reason = None
            self._in_a_row = 0

    def _open(self, reason: str) -> bool:
        self._opened_at = self._clock()
        self._openings_total += 1
        self._reason = reason
        self._doublings = min(self._doublings + 1, self._max_doublings + 1)
        return True
