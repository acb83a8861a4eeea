"""Rates, shares and means that forget: plain numbers on the caller's clock. Pure."""

import math
import statistics
from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(slots=True, kw_only=True)
class DecayedRate:
    """Events a second, the latest weighing most.

    Attributes:
        half_life_s: after so long an event weighs half.
        begun_at: when counting began; None before the first event.
        weight: of all events, as of `at`.
    """

    half_life_s: float = 1800.0
    begun_at: float | None = None
    at: float = 0.0
    weight: float = 0.0

    def count(self, at: float, events: float = 1.0) -> None:
        """So many events happened at a time, which is never before the last one."""
        if self.begun_at is None:
            self.begun_at = self.at = at
        if at > self.at:
            self.weight *= math.exp2((self.at - at) / self.half_life_s)  # as `_left`
            self.at = at
        self.weight += events

    def per_s(self, at: float) -> float:
        """The rate; 0 before the first event.

        The first event begins the clock, so a short while is counted as having gone by before it:
        two quick events are no proof of a high rate.
        """
        if self.begun_at is None:
            return 0.0
        at = max(at, self.at)
        time_constant = self.half_life_s / math.log(2)
        watched_s = time_constant * (1 - math.exp(-(at - self.begun_at) / time_constant))
        return self.weight * self._left(at - self.at) / (watched_s + _FIRST_S)

    def _left(self, seconds: float) -> float:
        return math.exp2(-seconds / self.half_life_s)


# What the first event is taken to have waited for.
_FIRST_S = 30.0


@dataclass(slots=True, kw_only=True)
class Share:
    """How often something is so, in the last few hundred times, with a prior."""

    prior_yes: float
    prior_no: float
    memory: float = 300.0
    yes: float = 0.0
    no: float = 0.0

    def count(self, happened: bool) -> None:
        """It was looked at once more."""
        keep = 1 - 1 / self.memory
        self.yes, self.no = self.yes * keep + happened, self.no * keep + (not happened)

    @property
    def seen(self) -> float:
        """How many times, the older ones counting less."""
        return self.yes + self.no

    @property
    def value(self) -> float:
        """0 to 1."""
        return (self.yes + self.prior_yes) / (self.seen + self.prior_yes + self.prior_no)


@dataclass(slots=True, kw_only=True)
class Recent:
    """The mean of the last few values without the highest and lowest eighth.

    One cold start or one long wait says nothing of the next question; what happens time and again
    does.
    """

    memory: int = 16
    values: list[float] = field(default_factory=list)

    def add(self, value: float) -> None:
        """One more value."""
        self.values = [*self.values, value][-self.memory :]

    def value(self, default: float) -> float:
        """The trimmed mean; `default` where there was no value yet."""
        if not self.values:
            return default
        count = len(self.values)
        cut = max(1, count // 8) if count >= 3 else 0
        return statistics.fmean(sorted(self.values)[cut : count - cut])


def numbers(values: Mapping[str, object], *names: str) -> dict[str, float]:
    """Those of the values that are finite numbers, for reading stored state leniently."""
    found: dict[str, float] = {}
    for name in names:
        value = values.get(name)
        if isinstance(value, int | float) and math.isfinite(value):
            found[name] = float(value)
    return found
