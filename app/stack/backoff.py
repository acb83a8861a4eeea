"""When a process that ended is started again: a pure policy."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class RestartPolicy:
    """Doubling delays, and an end to them.

    Attributes:
        first_s: delay before the first restart, seconds.
        longest_s: no delay is longer, seconds.
        attempts: restarts in a row before giving up; 0 never restarts.
        settled_after_s: a process that was ready for so long starts a new row.
    """

    first_s: float = 1.0
    longest_s: float = 30.0
    attempts: int = 5
    settled_after_s: float = 120.0

    def delay_s(self, restarts: int) -> float | None:
        """Seconds to wait after this many restarts in a row, or None to give up."""
        if restarts >= self.attempts:
            return None
        # The exponent is bounded, so that a long row cannot overflow a float.
        return min(self.longest_s, self.first_s * 2.0 ** min(restarts, 60))

    def row(self, restarts: int, *, ready_for_s: float) -> int:
        """The restarts that still count for a process that had been ready for a time."""
        return 0 if ready_for_s >= self.settled_after_s else restarts


NEVER_RESTART = RestartPolicy(attempts=0)
