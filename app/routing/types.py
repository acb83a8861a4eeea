"""What a routing policy is told, and what it answers."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from cache.records import record

# The first two aren't frozen: both are made for each replica at each request, and a frozen
# dataclass takes four times as long to make. Nobody changes them.


@dataclass(slots=True, kw_only=True)
class ReplicaLoad:
    """What is known of one replica's work. What isn't known is None.

    Attributes:
        waiting_uncached_tokens: tokens that its queue has still to compute, as it said last.
        unseen_tokens: tokens to compute of requests that gateways sent and that haven't answered
            yet: those sent since that look, or all of them where the queue isn't known.
        running, waiting: requests in its batch, and in its queue.
        pool_used: share of its KV pool that running requests hold, 0 to 1.
        prefill_tokens_per_s: measured; None until it has computed enough.
    """

    waiting_uncached_tokens: int | None = None
    unseen_tokens: int = 0
    running: int | None = None
    waiting: int | None = None
    pool_used: float | None = None
    prefill_tokens_per_s: float | None = None


@dataclass(slots=True, kw_only=True)
class Candidate:
    """A replica that may be chosen, and what it holds of the prompt.

    Attributes:
        held_tokens: leading tokens of the prompt in its GPU's cache, or on their way there.
        tier_tokens: leading tokens that the tiers hold, `held_tokens` included; >= `held_tokens`.
        tier_load_s: seconds to load one token from the tiers; None where no tier was measured.
        in_flight: requests that the gateways have there, others' as far as they tell.
    """

    name: str
    load: ReplicaLoad
    held_tokens: int = 0
    tier_tokens: int = 0
    tier_load_s: float | None = None
    in_flight: int = 0


@record
class RouteRequest:
    """What is to be routed.

    Attributes:
        tokens: of the prompt.
        affinity: salt, adapter and the prompt's opening. What is equal otherwise is decided by
            its digest, the same way in every gateway.
        deadline_s: seconds left until the answer is of no use; None: no deadline.
        at_s: now, by a monotonic clock; 0 where nobody tells the time.
    """

    tokens: int
    affinity: bytes = b""
    deadline_s: float | None = None
    at_s: float = 0.0


@record
class Route:
    """The choice, with its reason as a sentence.

    Attributes:
        estimated_ttft_s: None where no speed is known, or the policy doesn't estimate.
        order: all candidates' names, the chosen one first, the next best after it (for failover).
    """

    replica: str
    reason: str
    estimated_ttft_s: float | None = None
    order: tuple[str, ...] = ()


class RoutingPolicy(Protocol):
    """Chooses among candidates. One event loop owns it; it may keep state of its own."""

    def choose(self, request: RouteRequest, candidates: Sequence[Candidate]) -> Route:
        """The replica to send a request to. Names are unique.

        Raises:
            ValueError: there are no candidates.
        """
        ...
