"""What a report shows, as plain values; `cache.report` gathers them, other modules lay them out.

Every sum is over the requests for which all of its figures are known, and says how many those are,
so that what is shown adds up and what isn't known stays visible.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from cache.alerts import BudgetCheck, VersionFell
from cache.crosscheck import CrossCheck
from cache.flame import FlameNode
from cache.ledger import LedgerStatus
from cache.savings import Savings
from cache.summary import Summary

VERDICTS = ("changed", "isolated", "evicted", "moved", "rounding", "engine", "unknown")
_WITHIN_IDEAL = VERDICTS[2:]


@dataclass(frozen=True, slots=True, kw_only=True)
class Waterfall:
    """Where prompt tokens went, over the `requests` whose prompt, ideal and cached are all known.

    prompt = new + lost `beyond` the ideal + ideal, and ideal = lost `within` it + cached.
    """

    requests: int
    prompt_tokens: int
    ideal_tokens: int
    cached_tokens: int
    new_tokens: int
    lost: Mapping[str, int]

    @property
    def lost_tokens(self) -> int:
        """What could have been re-used and wasn't, for whatever reason."""
        return sum(self.lost.values())

    @property
    def within(self) -> Mapping[str, int]:
        """Losses within the ideal. An opening that fills no page at all lies beyond it, and so does
        what others were only computing at the time.
        """
        found = {name: self.lost[name] for name in _WITHIN_IDEAL if name in self.lost}
        excess = max(0, sum(found.values()) - (self.ideal_tokens - self.cached_tokens))
        for name in ("rounding", "unknown", "engine", "moved"):
            beyond = min(excess, found.get(name, 0))
            excess -= beyond
            found[name] = found.get(name, 0) - beyond
        return {name: tokens for name, tokens in found.items() if tokens}

    @property
    def beyond(self) -> Mapping[str, int]:
        """Losses beyond the ideal: not to be re-used as the prompts were sent."""
        within = self.within
        left = {name: self.lost.get(name, 0) - within.get(name, 0) for name in VERDICTS}
        return {name: tokens for name, tokens in left.items() if tokens}

    @property
    def ideal_rate(self) -> float | None:
        """Ideal over prompt tokens; None without any."""
        return self.ideal_tokens / self.prompt_tokens if self.prompt_tokens else None

    @property
    def worst(self) -> str | None:
        """The verdict that cost most tokens."""
        return max(self.lost, key=lambda verdict: self.lost[verdict]) if self.lost_tokens else None


@dataclass(frozen=True, slots=True, kw_only=True)
class TtftShare:
    """Times to first token of one kind of request.

    `buckets` are (upper bound in seconds, requests) in growing order; the bounds are the same for
    every kind, so that they can be compared.
    """

    requests: int
    p50_s: float | None
    p90_s: float | None
    p99_s: float | None
    buckets: tuple[tuple[float, int], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TtftSplit:
    """Requests that re-used at least a token, that re-used none, and where that isn't known."""

    with_hits: TtftShare
    without: TtftShare
    unknown: TtftShare


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """One group of requests: its sums, and where its tokens went as far as that is known."""

    summary: Summary
    waterfall: Waterfall | None = None

    @property
    def ideal_rate(self) -> float | None:
        """Ideal over prompt tokens; None where no request's ideal is known."""
        return None if self.waterfall is None else self.waterfall.ideal_rate

    @classmethod
    def of(cls, summary: Summary) -> "Group":
        """A group from its sums."""
        return cls(summary=summary, waterfall=_waterfall(summary))


@dataclass(frozen=True, slots=True, kw_only=True)
class Breakdown:
    """Requests by some of their labels: the groups with most prompt tokens, and all others as one.

    `rest_groups` groups are summed up in `rest`; None where none were left over.
    """

    by: tuple[str, ...]
    groups: tuple[Group, ...]
    rest: Group | None = None
    rest_groups: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class TimePoint:
    """One interval's requests; `at` is where it begins."""

    at: datetime
    requests: int
    cached_tokens: int
    prompt_tokens: int
    ideal_rate: float | None = None

    @property
    def hit_rate(self) -> float | None:
        """In 0 … 1; None where no prompt token is known."""
        return self.cached_tokens / self.prompt_tokens if self.prompt_tokens else None


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeLine:
    """One template's intervals in order, only those with requests; None is all templates."""

    template: str | None
    points: tuple[TimePoint, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class OverTime:
    """Hit rates over time: all requests, and the templates with most prompt tokens.

    `left_out` templates have no line of their own.
    """

    step: timedelta
    everything: TimeLine
    templates: tuple[TimeLine, ...] = ()
    left_out: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class GivenAgain:
    """Answers that were kept and given again: they are in no other figure of a report."""

    answers: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """Everything that one report shows; `total` is None where no request is in its window.

    Attributes:
        since, until: the window that the figures are for.
        asked_since, asked_until: the window that was asked for; where rows of an edge have been
            deleted, the figures are for a wider one.
        first_at: start of the first interval with requests; None without any.
        groups: by the columns that were asked for.
        tenants, modes, replicas, collections: always there, whatever was asked for.
        savings: None where the engine's prefill speed isn't known (yet).
        falls, budgets: the alerts; over all templates, not only those with room in `groups`.
        flame: None where the prefix index wasn't at hand or is empty.
        cross_check: None where the engine's counters couldn't be read.
        ledger: the writer's state, so that the report can say what is missing from it.
        given_again: what the response cache answered; None where nobody asked.
    """

    made_at: datetime
    since: datetime | None
    until: datetime | None
    groups: Breakdown
    tenants: Breakdown
    modes: Breakdown
    replicas: Breakdown
    collections: Breakdown
    total: Group | None
    asked_since: datetime | None = None
    asked_until: datetime | None = None
    first_at: datetime | None = None
    over_time: OverTime | None = None
    ttft: TtftSplit | None = None
    savings: Savings | None = None
    falls: tuple[VersionFell, ...] = ()
    budgets: tuple[BudgetCheck, ...] = ()
    flame: FlameNode | None = None
    cross_check: CrossCheck | None = None
    ledger: LedgerStatus | None = None
    given_again: GivenAgain | None = None


def _waterfall(summary: Summary) -> Waterfall | None:
    """None where no request's figures are all known."""
    sums = summary.accounted
    if not sums.requests:
        return None
    lost = summary.lost.tokens
    if sum(lost.values()) != sums.prompt_tokens - sums.new_tokens - sums.cached_tokens:
        # The reasons are of other requests than the sums: what was lost is known, why isn't.
        lost = {"unknown": sums.prompt_tokens - sums.new_tokens - sums.cached_tokens}
    return Waterfall(
        requests=sums.requests,
        prompt_tokens=sums.prompt_tokens,
        ideal_tokens=sums.ideal_tokens,
        cached_tokens=sums.cached_tokens,
        new_tokens=sums.new_tokens,
        lost={reason: tokens for reason, tokens in lost.items() if tokens},
    )
