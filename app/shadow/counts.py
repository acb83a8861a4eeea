"""What shadowing counts for Prometheus."""

from collections.abc import Callable
from enum import StrEnum

from app.series import Counts
from app.shadow.rows import ShadowRow

CountsMaker = Callable[[str, str, tuple[str, ...]], Counts]


class Outcome(StrEnum):
    """What became of a request that was drawn."""

    COMPARED = "compared"
    FAILED = "failed"
    DROPPED = "dropped"
    """The queue was full, or the gateway ended."""
    LEFT_OUT = "left_out"
    """Its answer can't be compared: several copies."""


class ShadowCounts:
    """The counters; all are 0 while nothing is mirrored."""

    def __init__(self, make: CountsMaker) -> None:
        self._requests = make(
            "shadow_requests", "Requests drawn to be mirrored, by what became of them", ("outcome",)
        )
        self._failures = make(
            "shadow_failures", "Mirrored requests that the target didn't answer", ("reason",)
        )
        self._answers = make(
            "shadow_answers", "Greedy answers compared, by whether both were equal", ("equal",)
        )
        self._prompt = make(
            "shadow_prompt_tokens", "Prompt tokens of compared requests, by side", ("side",)
        )
        self._cached = make(
            "shadow_cached_tokens", "Those of them that were re-used, by side", ("side",)
        )

    def became(self, outcome: Outcome, requests: int = 1) -> None:
        """So many drawn requests ended so."""
        self._requests.values[outcome.value,] += requests

    def of(self, outcome: Outcome) -> int:
        """How many did."""
        return int(self._requests.values.get((outcome.value,), 0))

    def measured(self, row: ShadowRow) -> None:
        """A copy was answered, or wasn't."""
        if row.error is not None:
            self.became(Outcome.FAILED)
            self._failures.values[row.error,] += 1
            return
        self.became(Outcome.COMPARED)
        if row.equal is not None:
            self._answers.values["yes" if row.equal else "no",] += 1
        if row.tells_reuse:
            for name, side in (("live", row.live), ("shadow", row.shadow)):
                self._prompt.values[name,] += side.prompt_tokens or 0
                self._cached.values[name,] += side.cached_tokens or 0
