"""One replica's load: what it said last, and what was sent to it since, here and by other gateways.

An engine tells what waits in its queue. The prompt that it is computing isn't in there any more,
and hasn't answered yet; of 40,000 tokens those are seconds. So the tokens of all requests that
haven't answered are known too, and what of them doesn't wait is being computed.

Pure.
"""

from math import inf

import msgspec

from app.routing import ReplicaLoad
from cache.engine_loads import EngineLoads

# What other gateways said so long before the engine's last word isn't true any more.
_OLD_S = 1.0


class _Asked(msgspec.Struct, frozen=True, gc=False):
    """A request that hasn't answered.

    Attributes:
        computed_at: when its prompt is computed at the latest, as far as is known.
    """

    sent_at: float
    tokens: int
    computed_at: float


class LoadMeter:
    """Follows one replica's work. Times are of a monotonic clock; one event loop owns it."""

    def __init__(self) -> None:
        self._loads: EngineLoads | None = None
        # Requests that haven't answered yet, in the order in which they were sent.
        self._unanswered: dict[str, _Asked] = {}
        self._unanswered_tokens = 0
        # Those of them that the last look can't have seen.
        self._unseen: dict[str, int] = {}
        self._unseen_tokens = 0
        self._flying: set[str] = set()
        self._asked_at = -inf
        self._tokens_per_s: float | None = None
        self._computed_at = -inf
        # What other gateways have there, and when they said so.
        self._others = 0
        self._others_tokens = 0
        self._others_at = -inf
        # Made once between two changes: it is asked for at each request to any replica.
        self._load: ReplicaLoad | None = None

    @property
    def in_flight(self) -> int:
        """Requests that this gateway has there."""
        return len(self._flying)

    @property
    def in_flight_everywhere(self) -> int:
        """Requests that all gateways have there, as far as they tell."""
        return len(self._flying) + self._others

    @property
    def is_busy(self) -> bool:
        """Whether any gateway has requests there."""
        return bool(self._flying) or self._others > 0

    @property
    def unanswered_tokens(self) -> int:
        """Tokens to compute of this gateway's requests that haven't answered yet."""
        return self._unanswered_tokens

    def heard_of_others(self, *, in_flight: int, unanswered_tokens: int, at: float) -> None:
        """What all other gateways have there now."""
        self._others, self._others_tokens, self._others_at = in_flight, unanswered_tokens, at
        self._load = None

    def looked(
        self, loads: EngineLoads | None, *, asked_at: float, tokens_per_s: float | None = None
    ) -> None:
        """It was asked for its load; None: it didn't tell. `tokens_per_s` is its prefill speed."""
        self._loads, self._asked_at, self._tokens_per_s = loads, asked_at, tokens_per_s
        self._load = None
        if loads is None or loads.waiting_uncached_tokens is None:
            return
        for request_id in list(self._unseen):
            if self._unanswered[request_id].sent_at > asked_at:
                break
            self._see(request_id)
        for request_id, asked in list(self._unanswered.items()):
            if asked.computed_at <= asked_at:
                self._computed(request_id)

    def begun(self, request_id: str, *, tokens: int, at: float, streams: bool = True) -> None:
        """A request is sent that has so many tokens to compute, as far as is known.

        The first token of one that doesn't stream isn't seen: it is taken for computed when twice
        the time has passed that it and those before it take.
        """
        computed_at = inf
        if self._tokens_per_s:
            self._computed_at = max(self._computed_at, at) + 2 * tokens / self._tokens_per_s
        if not streams:
            computed_at = self._computed_at if self._tokens_per_s else at
        self._flying.add(request_id)
        if request_id in self._unanswered:
            self._computed(request_id)
        self._unanswered[request_id] = _Asked(at, tokens, computed_at)
        self._unanswered_tokens += tokens
        self._unseen[request_id] = tokens
        self._unseen_tokens += tokens
        self._load = None

    def first_token(self, request_id: str) -> None:
        """Its prompt is computed."""
        self._computed(request_id)
        if not self._unanswered:
            self._computed_at = -inf

    def ended(self, request_id: str) -> None:
        """It has ended, however it did."""
        self._flying.discard(request_id)
        asked = self._unanswered.pop(request_id, None)
        if asked is not None:  # as `_computed`
            self._load = None
            self._unanswered_tokens -= asked.tokens
            self._unseen_tokens -= self._unseen.pop(request_id, 0)
        if not self._unanswered:
            self._computed_at = -inf

    def restarted(self) -> None:
        """The engine began anew: what waited there waits no more."""
        self._loads = self._load = None
        self._unanswered.clear()
        self._unseen.clear()
        self._unanswered_tokens = self._unseen_tokens = 0
        self._computed_at = -inf

    def load(self, *, tokens_per_s: float | None) -> ReplicaLoad:
        """All that is known, with the prefill speed that was measured."""
        known = self._load
        if known is None or known.prefill_tokens_per_s != tokens_per_s:
            known = self._load = self._made(tokens_per_s)
        return known

    def _made(self, tokens_per_s: float | None) -> ReplicaLoad:
        loads = self._loads
        unseen_tokens = self._unanswered_tokens
        if self._others_at > self._asked_at - _OLD_S:
            unseen_tokens += self._others_tokens
        if loads is None:
            return ReplicaLoad(unseen_tokens=unseen_tokens, prefill_tokens_per_s=tokens_per_s)
        if loads.waiting_uncached_tokens is not None:
            # What is unanswered waits, is being computed, or came after the look.
            unseen_tokens = max(self._unseen_tokens, unseen_tokens - loads.waiting_uncached_tokens)
        return ReplicaLoad(
            waiting_uncached_tokens=loads.waiting_uncached_tokens,
            unseen_tokens=unseen_tokens,
            running=loads.running_requests,
            waiting=loads.waiting_requests,
            pool_used=loads.used_tokens / loads.pool_tokens if loads.pool_tokens else None,
            prefill_tokens_per_s=tokens_per_s,
        )

    def _computed(self, request_id: str) -> None:
        asked = self._unanswered.pop(request_id, None)
        if asked is not None:
            self._load = None
            self._unanswered_tokens -= asked.tokens
            self._unseen_tokens -= self._unseen.pop(request_id, 0)

    def _see(self, request_id: str) -> None:
        self._unseen_tokens -= self._unseen.pop(request_id, 0)
