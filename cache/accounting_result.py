"""From ranges of lost tokens to a verdict, and to what of it a client may see."""

from collections import Counter
from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from cache.accounting_losses import EngineRules, Evidence, Loss, beyond, gaps, shortfall
from cache.accounting_values import Expectation, Outcome
from cache.causes import VERDICT_OF, Cause
from cache.divergence import Comparison
from cache.verdicts import Accounting, Divergence, Verdict


def accounting_of(expectation: Expectation, evidence: Evidence) -> Accounting:
    """The accounting of a request whose cached tokens are known."""
    losses = losses_of(expectation, evidence)
    if not losses:
        return nothing_lost(expectation, evidence.cached)
    ideal = max(expectation.ideal_tokens, evidence.cached)
    lost, causes = _by_verdict(losses), _main_causes(losses)
    verdict = _verdict(lost, ideal)
    return Accounting(
        ideal_tokens=ideal,
        predicted_tokens=expectation.predicted_tokens,
        verdict=verdict,
        cause=causes.get(verdict),
        lost=lost,
        new_tokens=evidence.tokens - evidence.cached - sum(lost.values()),
        divergence=_nearest(expectation.comparison, ideal, evidence.rules),
        causes=causes,
    )


def is_whole(expectation: Expectation, cached: int) -> bool:
    """Whether it is plain at first sight that nothing was lost, as for most requests."""
    comparison = expectation.comparison
    return (
        0 < expectation.ideal_tokens <= cached
        and not expectation.lost_races
        and not (comparison is not None and comparison.found)
        and expectation.match.other_salts * expectation.rules.page_tokens <= cached
    )


def nothing_lost(expectation: Expectation, cached: int) -> Accounting:
    """The accounting of a request that re-used all that it could."""
    ideal, comparison = max(expectation.ideal_tokens, cached), expectation.comparison
    divergence = None
    # As `_nearest`.
    if comparison is not None and comparison.shared + expectation.rules.page_tokens >= ideal:
        divergence = comparison.divergence
    return Accounting(
        ideal_tokens=ideal,
        predicted_tokens=expectation.predicted_tokens,
        verdict=Verdict.HIT if ideal else Verdict.COLD,
        cause=None,
        lost={},
        new_tokens=expectation.tokens - cached,
        divergence=divergence,
    )


def unknown_accounting(expectation: Expectation, outcome: Outcome) -> Accounting:
    """The accounting of a request whose cached tokens nobody told."""
    comparison, cause = expectation.comparison, _unreported(expectation.rules, outcome)
    return Accounting(
        ideal_tokens=expectation.ideal_tokens,
        predicted_tokens=expectation.predicted_tokens,
        verdict=Verdict.UNKNOWN,
        cause=cause,
        lost={},
        new_tokens=None,
        divergence=comparison.divergence if comparison else None,
        causes={Verdict.UNKNOWN: cause},
    )


def losses_of(expectation: Expectation, evidence: Evidence) -> list[Loss]:
    """All that was lost, in the order of the tokens; nothing twice."""
    rules, limit, comparison = evidence.rules, evidence.limit, expectation.comparison
    losses = shortfall(evidence)
    start = max(evidence.cached, evidence.left)
    if losses:
        start = max(start, losses[-1].stop)
    if comparison is not None and start == 0:
        losses += _within_a_page(comparison, expectation)
        start = losses[-1].stop if losses else 0
    changed: list[Loss] = []
    if comparison is not None and comparison.found:
        changed = beyond(
            max(start, comparison.shared),
            limit,
            comparison.found,
            comparison.cause,
            least=rules.page_tokens,
        )
    others = evidence.capped(evidence.match.other_salts)
    return [*losses, *changed, *gaps(start, others, changed, Cause.OTHER_SALT)]


def _within_a_page(comparison: Comparison, expectation: Expectation) -> list[Loss]:
    """A shared opening of whole pieces that doesn't fill a page."""
    shared = min(comparison.shared, expectation.tokens - 1)
    first = next(iter(expectation.prompt.pieces), None)
    if first is None or first.own_stop > comparison.shared:
        return []
    return [Loss(0, shared, Cause.PAGE)] if expectation.rules.page_floor(shared) == 0 else []


def _by_verdict(losses: Sequence[Loss]) -> dict[Verdict, int]:
    lost: Counter[Verdict] = Counter()
    for loss in losses:
        lost[VERDICT_OF[loss.cause]] += loss.tokens
    return dict(lost)


def _verdict(lost: Mapping[Verdict, int], ideal: int) -> Verdict:
    if Verdict.UNKNOWN in lost:
        return Verdict.UNKNOWN
    if not lost:
        return Verdict.HIT if ideal else Verdict.COLD
    return max(lost, key=lost.__getitem__)


def _main_causes(losses: Sequence[Loss]) -> dict[Verdict, str]:
    """For each reason the cause that cost most of its tokens."""
    tokens: Counter[Cause] = Counter()
    for loss in losses:
        tokens[loss.cause] += loss.tokens
    return {VERDICT_OF[cause]: cause for cause, _ in reversed(tokens.most_common())}


def _nearest(comparison: Comparison | None, ideal: int, rules: EngineRules) -> Divergence | None:
    """The divergence, unless some prompt that is no longer known shared clearly more."""
    if comparison is None or comparison.divergence is None:
        return None
    return comparison.divergence if comparison.shared + rules.page_tokens >= ideal else None


def _unreported(rules: EngineRules, outcome: Outcome) -> Cause:
    if outcome.failed:
        return Cause.FAILED
    if not outcome.completed:
        return Cause.ABORTED
    return Cause.NOT_REPORTED if rules.cache_report else Cause.NO_CACHE_REPORT


def for_client(accounting: Accounting, scaffold_tokens: int) -> Accounting:
    """What a client may see: nothing of other salts but that they use the same scaffold.

    Tokens that another salt had left, behind the template's static opening, would tell a tenant
    what others have sent: they count as new.
    """
    isolated = accounting.lost.get(Verdict.ISOLATED, 0)
    if not isolated or accounting.new_tokens is None or accounting.ideal_tokens is None:
        return accounting
    own = max(0, min(isolated, scaffold_tokens - accounting.ideal_tokens))
    lost, causes = dict(accounting.lost), dict(accounting.causes)
    if own:
        lost[Verdict.ISOLATED] = own
    else:
        del lost[Verdict.ISOLATED]
        causes.pop(Verdict.ISOLATED, None)
    verdict = _verdict(lost, accounting.ideal_tokens)
    return replace(
        accounting,
        lost=lost,
        verdict=verdict,
        cause=causes.get(verdict),
        causes=causes,
        new_tokens=accounting.new_tokens + isolated - own,
    )
