"""Token buckets: so much in a minute, spent as fast as one likes. Pure; time is given.

A bucket may go below nothing: what a request took more than it was estimated to is owed, and the
next ones wait for it.
"""

from dataclasses import dataclass, field

_MINUTE_S = 60.0


@dataclass(slots=True, kw_only=True)
class Bucket:
    """Holds up to `limit`, and gains `limit` a minute; it begins full. Times are in seconds."""

    limit: int
    at: float
    level: float = field(default=-1.0)

    def __post_init__(self) -> None:
        if self.level < 0:
            self.level = float(self.limit)

    def take(self, amount: float, now: float) -> float | None:
        """None if it was taken; else seconds until it could be, and nothing was taken.

        More than the bucket ever holds can't be taken at all: that is infinity.
        """
        self._fill(now)
        if amount <= self.level:
            self.level -= amount
            return None
        return self.wait_s(amount)

    def wait_s(self, amount: float) -> float:
        """Seconds until so much is in it, if nothing else is taken meanwhile."""
        if amount > self.limit:
            return float("inf")
        return max(0.0, (amount - self.level) * _MINUTE_S / self.limit)

    def correct(self, difference: float, now: float) -> None:
        """Take so much more, also below nothing; negative: give back what wasn't needed."""
        self._fill(now)
        self.level = max(min(self.level - difference, float(self.limit)), -float(self.limit))

    def remaining(self, now: float) -> int:
        """Whole units that could be taken now."""
        self._fill(now)
        return max(0, int(self.level))

    def full_in_s(self) -> float:
        """Seconds until it is full again, as of the last look."""
        return (self.limit - self.level) * _MINUTE_S / self.limit

    def resize(self, limit: int, now: float) -> None:
        """Another limit: what was used stays used."""
        if limit != self.limit:
            self._fill(now)
            used = self.limit - self.level
            self.limit = limit
            self.level = max(min(limit - used, float(limit)), -float(limit))

    def _fill(self, now: float) -> None:
        # A clock that is set back takes nothing away.
        gained = max(0.0, now - self.at) * self.limit / _MINUTE_S
        self.level = min(self.level + gained, float(self.limit))
        self.at = now
