"""When a replica that fails gets no requests, and when it is tried again: a pure policy.

    closed ──`failures` in a row──▶ open ──after `open_s`──▶ half-open ──success──▶ closed
                                     ▲                           │
                                     └──failure, twice as long───┘

Half-open lets one request through: the probe. Whoever sends a request says so with `began`, and
then how it went with `succeeded`, `failed` or `abandoned`. Times are of a monotonic clock, in
seconds.
"""

from enum import StrEnum


class BreakerState(StrEnum):
    """What may be sent now: all, nothing, or one request."""

    CLOSED = "closed"
    OPEN = "open"
    HALF_OPEN = "half-open"


class Breaker:
    """Counts a replica's failures. One event loop owns it.

    Args:
        failures: in a row, before it opens; >= 1.
        open_s: how long it stays open the first time; each probe that fails doubles it.
        longest_open_s: it never stays open longer. A probe that says nothing for so long is
            taken for lost, and another is let through.
    """

    def __init__(
        self, *, failures: int = 3, open_s: float = 2.0, longest_open_s: float = 30.0
    ) -> None:
        self._most_failures = failures
        self._first_open_s = open_s
        self._longest_open_s = longest_open_s
        self._failures = 0
        self._open_s = open_s
        self._open_until: float | None = None
        self._probe_since: float | None = None

    @property
    def failures(self) -> int:
        """Failures in a row."""
        return self._failures

    def state(self, now: float) -> BreakerState:
        """Where it stands."""
        if self._open_until is None:
            return BreakerState.CLOSED
        return BreakerState.OPEN if now < self._open_until else BreakerState.HALF_OPEN

    def allows(self, now: float) -> bool:
        """Whether a request may be sent. Asking changes nothing."""
        if self._open_until is None:
            return True
        match self.state(now):
            case BreakerState.CLOSED:
                return True
            case BreakerState.OPEN:
                return False
            case BreakerState.HALF_OPEN:
                return not self._is_probing(now)

    def retry_in_s(self, now: float) -> float:
        """Seconds until a request may be sent, as far as that is known; 0 if it may now."""
        if self._open_until is None:
            return 0.0
        if now < self._open_until:
            return self._open_until - now
        # How a probe ends isn't known before it does: the shortest pause is as good as any.
        return self._first_open_s if self._is_probing(now) else 0.0

    def began(self, now: float) -> None:
        """A request is sent; while half-open it is the probe."""
        if self._open_until is not None and self.state(now) is BreakerState.HALF_OPEN:
            self._probe_since = now

    def succeeded(self, now: float) -> None:
        """A request was answered.

        While open that changes nothing: it was sent before, and says little of the next one.
        """
        if self._open_until is not None and self.state(now) is BreakerState.OPEN:
            return
        self._failures = 0
        self._open_s = self._first_open_s
        self._open_until = self._probe_since = None

    def failed(self, now: float) -> None:
        """The replica failed a request; what the request itself was at fault for doesn't count."""
        self._failures += 1
        match self.state(now):
            case BreakerState.CLOSED:
                if self._failures >= self._most_failures:
                    self._open(now)
            case BreakerState.HALF_OPEN:
                self._open_s = min(self._longest_open_s, 2 * self._open_s)
                self._open(now)
            case BreakerState.OPEN:  # sent before it opened: tells nothing new
                return

    def abandoned(self) -> None:
        """A request ended without showing anything, as when its client went away."""
        self._probe_since = None

    def reset(self) -> None:
        """Forget all, as when the replica's process is another one."""
        self._failures = 0
        self._open_s = self._first_open_s
        self._open_until = self._probe_since = None

    def _open(self, now: float) -> None:
        self._open_until = now + self._open_s
        self._probe_since = None

    def _is_probing(self, now: float) -> bool:
        since = self._probe_since
        return since is not None and now - since < self._longest_open_s
