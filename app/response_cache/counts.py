"""What the response cache counts for Prometheus."""

from collections.abc import Callable
from enum import StrEnum

from app.response_cache.records import KeptAnswer
from app.series import Counts

CountsMaker = Callable[[str, str, tuple[str, ...]], Counts]


class Outcome(StrEnum):
    """What the response cache was to a request."""

    GIVEN = "given"
    MISSED = "missed"
    LEFT_OUT = "left_out"
    """It has more than one answer, or wants a new one."""


class ResponseCacheCounts:
    """The counters; all are 0 while the response cache is off."""

    def __init__(self, make: CountsMaker) -> None:
        self._requests = make(
            "response_cache_requests", "Requests by what the response cache was to them", ("by",)
        )
        self._tokens = make(
            "response_cache_tokens", "Tokens of answers that were given again", ("kind",)
        )

    def count(self, outcome: Outcome) -> None:
        """One request."""
        self._requests.values[outcome.value,] += 1

    def given(self, answer: KeptAnswer) -> None:
        """One that got a kept answer."""
        self.count(Outcome.GIVEN)
        for kind in ("prompt", "completion"):
            self._tokens.values[kind,] += answer.usage[f"{kind}_tokens"]
