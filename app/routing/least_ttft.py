"""The replica with the least estimated time to the first token.

`docs/routing.md` has the formula, what each term is for, and how the weights were found.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import NamedTuple

from app.routing.hashing import drawn
from app.routing.sent import Computed, Prompts
from app.routing.types import Candidate, Route, RouteRequest

# A decode step of a full batch delays a prefill by little; so much for each running request.
_DECODE_S = 0.0005
# What a full pool costs: running requests must end before a new one has room.
_POOL_WAIT_S = 4.0
# A tier whose speed wasn't measured is taken to load twice as fast as the engine computes.
_UNMEASURED_TIER = 0.5
# Shares are as of replicas that have all been sent so many seconds of work besides: while there is
# little to do nobody waits, and no share is too large.
_NO_MATTER_S = 5.0
_EQUAL_S = 1e-9
# Only ratios matter while no replica's speed is known.
_ANY_SPEED = 10_000.0


class _Price(NamedTuple):
    """Seconds until a replica would say the first token, by what they are spent on.

    Attributes:
        cost_s: what replicas are compared by: the wait for others is weighted.
        number: of the candidate.
    """

    cost_s: float
    number: int
    candidate: Candidate
    computed_tokens: int
    queue_s: float
    compute_s: float
    load_s: float
    pool_s: float

    @property
    def ttft_s(self) -> float:
        return self.queue_s + self.compute_s + self.load_s + self.pool_s


@dataclass(frozen=True, slots=True)
class _Fair:
    """What one replica's share of the last minute's prompts is measured by.

    Attributes:
        share_s: the seconds that all of them would take each replica, were none of it held and
            each sent as much as it is fast; `no_matter_s` besides.
        cost_s: of a share of twice that.
    """

    share_s: float
    cost_s: float


class LeastTtft:
    """Weighs the wait for others less than the own work.

    A second of own work is lost for good, and puts KV onto a replica where it displaces other KV;
    a second of waiting passes. A weight of 1 would take the soonest answer for this one request,
    and spread every conversation over all replicas.

    What was lately sent to be computed counts a little, so that new prompts go where the least was:
    then all caches are renewed as fast, and together keep what one large cache would.

    A replica that got more than its share of the last minute's prompts gets dearer. Queues say that
    too late: whoever holds much of many prompts has none, until it gets a few that it doesn't hold.
    """

    def __init__(
        self,
        *,
        load_weight: float = 0.075,
        spread_weight: float = 0.02,
        balance_weight: float = 1.0,
        pool_full: float = 0.9,
    ) -> None:
        """
        Args:
            load_weight: what a second of waiting counts, > 0; 1 is a second of own work.
            spread_weight: what a second of work counts that a replica was sent lately, >= 0.
            balance_weight: what a replica costs that got twice its share of the last minute's
                prompts, as a multiple of the time to compute a prompt of mean length, >= 0.
            pool_full: share of the KV pool in use from which a replica gets dearer, 0 to 1.

        Raises:
            ValueError: one of them is out of its range.
        """
        if load_weight <= 0:
            raise ValueError(f"load_weight is {load_weight}, but must be more than 0")
        if spread_weight < 0:
            raise ValueError(f"spread_weight is {spread_weight}, but must be 0 or more")
        if balance_weight < 0:
            raise ValueError(f"balance_weight is {balance_weight}, but must be 0 or more")
        if not 0 <= pool_full < 1:
            raise ValueError(f"pool_full is {pool_full}, but must be from 0 to below 1")
        self._load_weight = load_weight
        self._spread_weight = spread_weight
        self._pool_full = pool_full
        self._balance_weight = balance_weight
        self._computed = Computed()
        self._prompts = Prompts()

    def choose(self, request: RouteRequest, candidates: Sequence[Candidate]) -> Route:
        if not candidates:
            raise ValueError("there is no replica to choose from")
        speeds, known = _speeds(candidates)
        # Without a speed nobody can say how much is little: then all counts but for the idle.
        prices = self._prices(request, candidates, speeds, _NO_MATTER_S if known else 0.0)
        prices.sort()
        if len(prices) > 1 and prices[1].cost_s - prices[0].cost_s <= _EQUAL_S:
            _settle_tie(prices, request)
        late = _meet_deadline(prices, request.deadline_s) if known else ""
        best = prices[0]
        self._computed.sent(best.candidate.name, best.computed_tokens, len(candidates))
        self._prompts.sent(best.candidate.name, request.tokens)
        return Route(
            replica=best.candidate.name,
            reason=_reason(best, prices, request, timed=known) + late,
            estimated_ttft_s=best.ttft_s if known else None,
            order=tuple(p.candidate.name for p in prices),
        )

    def _fair(
        self,
        request: RouteRequest,
        candidates: Sequence[Candidate],
        speeds: Sequence[float],
        no_matter_s: float,
    ) -> _Fair:
        prompts = self._prompts
        prompts.passed(request.at_s)
        tokens = prompts.total(c.name for c in candidates) + request.tokens
        share_s = tokens / sum(speeds)
        mean_s = share_s * len(speeds) / (prompts.requests + 1)
        return _Fair(no_matter_s + share_s, self._balance_weight * mean_s)

    def _prices(
        self,
        request: RouteRequest,
        candidates: Sequence[Candidate],
        speeds: Sequence[float],
        no_matter_s: float,
    ) -> list[_Price]:
        fair = self._fair(request, candidates, speeds, no_matter_s)
        tokens = request.tokens
        prices = []
        for number, candidate in enumerate(candidates):
            load, speed = candidate.load, speeds[number]
            waiting = (load.waiting_uncached_tokens or 0) + load.unseen_tokens
            queue_s = waiting / speed + (load.running or 0) * _DECODE_S
            held = candidate.held_tokens
            if held > tokens:
                held = tokens
            tiered = candidate.tier_tokens
            if tiered > tokens:
                tiered = tokens
            load_s = 0.0
            if tiered > held:
                per_token_s = candidate.tier_load_s
                load_s = (tiered - held) * (
                    _UNMEASURED_TIER / speed if per_token_s is None else per_token_s
                )
            else:
                tiered = held
            # The last token is always computed: its output is what the answer begins with.
            computed = tokens - tiered or 1
            compute_s = computed / speed
            pool_s = 0.0
            if load.pool_used is not None and load.pool_used > self._pool_full:
                pool_s = _POOL_WAIT_S * (load.pool_used - self._pool_full) / (1 - self._pool_full)
            cost_s = self._load_weight * queue_s + compute_s + load_s + pool_s
            cost_s += self._spread_weight * self._computed.tokens(candidate.name) / speed
            prompts_s = (self._prompts.tokens(candidate.name) + tokens) / speed
            share = (no_matter_s + prompts_s) / fair.share_s
            if share > 1 and (no_matter_s or candidate.in_flight):
                cost_s += fair.cost_s * (share - 1)
            prices.append(
                _Price(cost_s, number, candidate, computed, queue_s, compute_s, load_s, pool_s)
            )
        return prices


def _speeds(candidates: Sequence[Candidate]) -> tuple[list[float], bool]:
    """Each one's prefill speed, and whether any is known; who has none has the others' median."""
    speeds = [c.load.prefill_tokens_per_s for c in candidates]
    known = [speed for speed in speeds if speed]
    if len(known) == len(speeds):
        return known, True
    other = median(known) if known else _ANY_SPEED
    return [speed or other for speed in speeds], bool(known)


def _settle_tie(prices: list[_Price], request: RouteRequest) -> None:
    """Among the cheapest, put first the one that every gateway would. `prices` is sorted."""
    ties = [p for p in prices if p.cost_s - prices[0].cost_s <= _EQUAL_S]
    draws = drawn(request.affinity, [p.candidate for p in ties])
    prices[: len(ties)] = sorted(ties, key=lambda p: draws[p.candidate.name], reverse=True)


def _meet_deadline(prices: list[_Price], deadline_s: float | None) -> str:
    """Where the cheapest is too late, move up the cheapest in time, or the soonest of all."""
    if deadline_s is None or prices[0].ttft_s <= deadline_s:
        return ""
    first = prices[0]
    in_time = next((p for p in prices if p.ttft_s <= deadline_s), None)
    chosen = in_time or min(prices, key=lambda p: p.ttft_s)
    prices.remove(chosen)
    prices.insert(0, chosen)
    if in_time is None:
        return f"; none meets the deadline of {deadline_s:.2f} s, this is the soonest"
    return f"; {first.candidate.name} would miss the deadline of {deadline_s:.2f} s"


def _reason(best: _Price, prices: list[_Price], request: RouteRequest, *, timed: bool) -> str:
    """Why the first of `prices` was chosen, with the figures that decided."""
    held = best.candidate.held_tokens
    said = f"holds {held:,} of {request.tokens:,} tokens"
    if best.load_s:
        said += f", loads {best.candidate.tier_tokens - held:,} from the tiers"
    if timed:
        said += (
            f"; {best.ttft_s:.2f} s to the first token"
            f" ({best.queue_s:.2f} waiting, {best.compute_s + best.load_s:.2f} of its own)"
        )
    fullest = max(prices, key=lambda p: p.candidate.held_tokens)
    if fullest.candidate.held_tokens > held:
        said += f"; {fullest.candidate.name} holds {fullest.candidate.held_tokens:,}"
        said += f" but {fullest.queue_s:.2f} s wait there" if timed else " but has more to do"
        if fullest.pool_s:
            said += " and its KV pool is full"
    return said
