"""Which tokens of a prompt were lost to what: ranges that don't overlap. Pure arithmetic.

A prompt's tokens from its start: re-used (`cached`), then what earlier requests had left and the
engine did not re-use, then what requests under way were computing, then what an earlier prompt had
elsewhere, or another salt in the same place. All else is new.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from cache.causes import Cause
from cache.prefix_match import Match, ReplicaMatch


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineRules:
    """What a replica and its tiers keep, and what they tell.

    Attributes:
        page_tokens: the engine's page.
        chunk_tokens: the tiers' chunk; None without tiers.
        cache_report: whether usage says how many tokens were cached.
        kv_events: whether the replica's KV events are received.
        tiers_certain: False once the tiers have dropped objects and nobody knows which.
        tier: the replica's name where its tiers are its own; the shared ones have no name.
    """

    page_tokens: int
    chunk_tokens: int | None = None
    cache_report: bool = True
    kv_events: bool = True
    tiers_certain: bool = True
    tier: str = ""

    def limit(self, tokens: int) -> int:
        """The most of a prompt that is ever re-used: the engine always computes the last token."""
        return max(0, tokens - 1) // self.page_tokens * self.page_tokens

    def page_floor(self, tokens: int) -> int:
        """Whole pages of so many tokens."""
        return max(0, tokens) // self.page_tokens * self.page_tokens

    def chunk_floor(self, tokens: int) -> int:
        """Whole chunks of so many tokens; 0 without tiers."""
        chunk = self.chunk_tokens
        return max(0, tokens) // chunk * chunk if chunk else 0


class Loss(NamedTuple):
    """Tokens `start <= i < stop` lost to one cause."""

    start: int
    stop: int
    cause: Cause

    @property
    def tokens(self) -> int:
        """How many."""
        return self.stop - self.start


class Evidence(NamedTuple):
    """What is known of one request, in tokens.

    `match` is what the index said when the request was sent, and `late` what it says now, asked
    for only where something is missing. `lost_races` has the replicas and pages of requests that
    were computing the same at the same time, and had it ready by its first token. `events_heard` is
    whether any KV event came since it was sent: those before it have then come, or are known to be
    lost.
    """

    tokens: int
    cached: int
    storage: int
    rules: EngineRules
    replica: str
    sent_at: float
    match: Match
    late: Match | None = None
    lost_races: Sequence[tuple[str, int]] = ()
    tiers_skipped: bool = False
    events_heard: bool = True

    @property
    def limit(self) -> int:
        """The most that could be re-used."""
        return self.rules.limit(self.tokens)

    @property
    def here(self) -> ReplicaMatch:
        """The replica's part when the request was sent."""
        return self.match.replicas.get(self.replica, ReplicaMatch())

    @property
    def left(self) -> int:
        """What earlier requests of this salt had left anywhere."""
        return self.capped(self.match.left)

    def capped(self, pages: int) -> int:
        """Pages as tokens, as far as they could be re-used."""
        return min(pages * self.rules.page_tokens, self.limit)


def predicted_tokens(match: Match, rules: EngineRules, *, replica: str, tokens: int) -> int | None:
    """What the replica and its tiers should re-use of a prompt; None where that isn't known."""
    here = match.replicas.get(replica)
    if not rules.kv_events or here is None or here.resident is None:
        return None
    gpu = here.resident * rules.page_tokens
    if gpu >= tokens:
        gpu = rules.limit(tokens)
    if rules.chunk_tokens is None:
        return gpu
    tier = rules.chunk_floor(min(match.given(rules.tier) * rules.page_tokens, tokens - 1))
    if tier > gpu and not rules.tiers_certain:
        return None
    return max(gpu, tier)


def shortfall(evidence: Evidence) -> list[Loss]:
    """What was left and not re-used, then what others were computing; in order."""
    cached, left = evidence.cached, evidence.left
    losses: list[Loss] = []
    if cached < left:
        losses += _left(evidence)
    if evidence.lost_races:
        losses += _racing(evidence, max(cached, left))
    return [loss for loss in losses if loss.tokens > 0]


def _left(evidence: Evidence) -> Iterator[Loss]:
    """[cached, left): this replica's part of it, then what only others had."""
    cached, left = evidence.cached, evidence.left
    here = max(cached, evidence.capped(evidence.here.left))
    if _is_rounded(evidence, left):
        yield Loss(cached, left, Cause.CHUNK)
        return
    if _is_rounded(evidence, here):
        yield Loss(cached, here, Cause.CHUNK)
    else:
        yield from _here(evidence, here)
    elsewhere = max(here, min(left, evidence.capped(_most_elsewhere(evidence))))
    yield Loss(here, elsewhere, Cause.OTHER_REPLICA)
    yield Loss(elsewhere, left, Cause.POOL)


def _is_rounded(evidence: Evidence, stop: int) -> bool:
    """Whether tiers served all whole chunks of what was left up to `stop`.

    A tier is only read for what the GPU lacks, so that it had no more than that either.
    """
    chunked = evidence.rules.chunk_tokens is not None and evidence.storage > 0
    return chunked and evidence.cached == evidence.rules.chunk_floor(stop)


def _here(evidence: Evidence, stop: int) -> Iterator[Loss]:
    """[cached, stop): what this replica had once."""
    cached, here = evidence.cached, evidence.here
    if cached >= stop:
        return
    if evidence.storage:
        # A load goes on as far as there is something, so that the GPU had no more either.
        yield Loss(cached, stop, _gone(evidence, cached))
        return
    if here.resident is None:
        yield Loss(cached, stop, _missing(evidence.rules))
        return
    resident = min(stop, max(cached, evidence.capped(here.resident)))
    yield Loss(cached, resident, _while_waiting(evidence))
    yield Loss(resident, stop, _gone(evidence, resident))


def _missing(rules: EngineRules) -> Cause:
    return Cause.EVENTS_LOST if rules.kv_events else Cause.EVENTS_OFF


def _while_waiting(evidence: Evidence) -> Cause:
    """Why KV that was there when the request was sent wasn't re-used."""
    late = evidence.late or Match()
    now = late.replicas.get(evidence.replica, ReplicaMatch())
    if _since(now.evidence_lost_at, evidence.sent_at):
        return Cause.EVENTS_LOST
    cleared = _since(now.last_cleared_at, evidence.sent_at)
    if not cleared and not _since(now.last_removed_at, evidence.sent_at):
        return Cause.UNEXPLAINED if evidence.events_heard else Cause.EVENTS_LOST
    return _not_loaded(evidence, evidence.cached) or (Cause.CLEARED if cleared else Cause.POOL)


def _gone(evidence: Evidence, start: int) -> Cause:
    """Why KV that the replica once had was gone when the request was sent."""
    if (cause := _not_loaded(evidence, start)) is not None:
        return cause
    here = evidence.here
    if here.last_cleared_at is None or here.removed:
        return Cause.POOL
    return Cause.CLEARED


def _not_loaded(evidence: Evidence, start: int) -> Cause | None:
    """Why the tiers did not give what they were given; None where they were given no more."""
    rules = evidence.rules
    given = min(evidence.match.given(rules.tier) * rules.page_tokens, evidence.tokens - 1)
    if rules.chunk_floor(given) <= start:
        return None
    return Cause.TIER_SKIPPED if evidence.tiers_skipped else Cause.TIER_LOST


def _most_elsewhere(evidence: Evidence) -> int:
    """Pages that some other replica still has, as far as is known."""
    return max(
        (
            match.left if match.resident is None else min(match.left, match.resident)
            for name, match in evidence.match.replicas.items()
            if name != evidence.replica
        ),
        default=0,
    )


def _racing(evidence: Evidence, start: int) -> Iterator[Loss]:
    """What was being computed when the request was sent and was ready by its first token."""
    races = [(where, evidence.capped(pages)) for where, pages in evidence.lost_races]
    here = max([start, *(tokens for where, tokens in races if where == evidence.replica)])
    anywhere = max([here, *(tokens for _, tokens in races)])
    yield Loss(start, here, Cause.CONCURRENT)
    yield Loss(here, anywhere, Cause.OTHER_REPLICA)


def beyond(
    start: int, limit: int, found: Iterable[tuple[int, int]], cause: Cause, *, least: int
) -> list[Loss]:
    """Ranges that were found again, as far as they lie between `start` and `limit`.

    None where they are fewer than `least` tokens together.
    """
    losses = [
        Loss(max(start, first), min(limit, stop), cause)
        for first, stop in found
        if max(start, first) < min(limit, stop)
    ]
    return losses if sum([loss.tokens for loss in losses]) >= least else []


def gaps(start: int, stop: int, taken: Iterable[Loss], cause: Cause) -> list[Loss]:
    """[start, stop) without what is taken already; `taken` is in order."""
    losses: list[Loss] = []
    for loss in taken:
        if loss.start > start:
            losses.append(Loss(start, min(stop, loss.start), cause))
        start = max(start, loss.stop)
    losses.append(Loss(start, stop, cause))
    # What is taken may reach beyond.
    return [loss for loss in losses if loss.tokens > 0]


def is_contradicted(now: ReplicaMatch, sent_at: float) -> bool:
    """Whether it has turned out that what was resident when a request was sent didn't stay."""
    times = (now.evidence_lost_at, now.last_cleared_at, now.last_removed_at)
    return now.resident is None or any(_since(at, sent_at) for at in times)


def _since(at: float | None, when: float) -> bool:
    return at is not None and at >= when
