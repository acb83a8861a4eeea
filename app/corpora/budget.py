"""Which corpora are kept in the engine's memory, and how often one is tried again. Pure."""

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace

# An incumbent stays unless another is asked for so many times as often.
_INCUMBENT = 1.5
_FIRST_WAIT_S = 5.0
_LONGEST_WAIT_S = 600.0
_CALM_S = 600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Demand:
    """How often something was asked for lately: a count that halves with each half-life."""

    half_life_s: float
    count: float = 0.0
    at: float = 0.0

    def level(self, at: float) -> float:
        """The count at a time."""
        half_lives = max(0.0, at - self.at) / self.half_life_s
        return self.count * math.exp2(-half_lives)

    def asked(self, at: float, times: float = 1.0) -> "Demand":
        """After it was asked for."""
        return replace(self, count=self.level(at) + times, at=at)


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A corpus that could be kept.

    Attributes:
        priority: of its collection; a higher one always goes first.
        demand: how often it was asked for lately.
        kept: whether it is kept now.
        settling: whether it is kept for so short a time that it may not be given up yet.
    """

    name: str
    tokens: int
    priority: int = 0
    demand: float = 0.0
    kept: bool = False
    settling: bool = False


def choose_kept(candidates: Iterable[Candidate], *, budget_tokens: int) -> frozenset[str]:
    """Names of the corpora to keep: by priority, then by demand, as far as the budget goes.

    One that doesn't fit leaves room for smaller ones behind it. A corpus that is kept has a start
    over its rivals, and one that was warmed just now can't lose its place to one of its own
    priority: two that don't fit together don't push each other out by turns.
    """
    kept: set[str] = set()
    left = budget_tokens
    for candidate in sorted(candidates, key=_rank):
        if candidate.tokens <= left:
            kept.add(candidate.name)
            left -= candidate.tokens
    return frozenset(kept)


def _rank(candidate: Candidate) -> tuple[int, bool, float, str]:
    start = _INCUMBENT if candidate.kept else 1.0
    return (-candidate.priority, not candidate.settling, -candidate.demand * start, candidate.name)


@dataclass(frozen=True, slots=True, kw_only=True)
class Backoff:
    """When a corpus that lost its place may be warmed again.

    Each loss soon after a warming doubles the wait; a corpus that stayed for a while begins anew.
    """

    losses: int = 0
    not_before: float = 0.0
    warmed_at: float | None = None

    def warmed(self, at: float) -> "Backoff":
        return replace(self, warmed_at=at)

    def lost(self, at: float) -> "Backoff":
        """After it was seen to be gone, or couldn't be warmed."""
        calm = self.warmed_at is not None and at - self.warmed_at >= _CALM_S
        losses = 0 if calm else self.losses
        wait_s = 0.0 if losses == 0 else min(_FIRST_WAIT_S * 2 ** (losses - 1), _LONGEST_WAIT_S)
        return Backoff(losses=losses + 1, not_before=at + wait_s)

    def allows(self, at: float) -> bool:
        return at >= self.not_before
