"""What replicas were lately sent, as far as one policy saw it. Pure: the caller tells the time."""

from collections.abc import Iterable
from math import exp

# Of so many requests for each replica is known what was computed "lately".
_LATELY_REQUESTS = 50
_LARGEST_UNIT = 1e9
# Prompts count for about so long.
_MEMORY_S = 60.0


class Computed:
    """Tokens that each replica was lately sent to compute; what is older counts less.

    Older by requests, not by time: caches are renewed by requests, however fast they come.
    """

    def __init__(self) -> None:
        self._tokens: dict[str, float] = {}
        # Instead of making all counts smaller, what is new is counted larger.
        self._unit = 1.0

    def tokens(self, name: str) -> float:
        return self._tokens.get(name, 0.0) / self._unit

    def sent(self, name: str, tokens: int, num_replicas: int) -> None:
        """A replica is sent a request, and everything before it grows older."""
        self._unit /= 1 - 1 / (_LATELY_REQUESTS * num_replicas)
        self._tokens[name] = self._tokens.get(name, 0.0) + tokens * self._unit
        if self._unit > _LARGEST_UNIT:
            # Whoever has gone is forgotten here.
            told = {name: tokens / self._unit for name, tokens in self._tokens.items()}
            self._tokens = {name: tokens for name, tokens in told.items() if tokens >= 1}
            self._unit = 1.0


class Prompts:
    """Prompt tokens that each replica was sent in the last minute or so, held ones included."""

    def __init__(self) -> None:
        self._tokens: dict[str, float] = {}
        self._requests = 0.0
        self._at_s = 0.0

    def passed(self, at_s: float) -> None:
        """It is so late now; whoever has gone is forgotten in time."""
        if at_s > self._at_s:
            kept = exp((self._at_s - at_s) / _MEMORY_S)
            self._tokens = {n: t * kept for n, t in self._tokens.items() if t >= 1}
            self._requests *= kept
            self._at_s = at_s

    def total(self, names: Iterable[str]) -> float:
        """Tokens that these replicas were sent."""
        return sum(self._tokens.get(name, 0.0) for name in names)

    def tokens(self, name: str) -> float:
        return self._tokens.get(name, 0.0)

    @property
    def requests(self) -> float:
        return self._requests

    def sent(self, name: str, tokens: int) -> None:
        """A replica is sent a prompt."""
        self._tokens[name] = self._tokens.get(name, 0.0) + tokens
        self._requests += 1
