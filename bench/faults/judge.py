"""What one fault did to clients, and whether that is as it should be. Pure."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from bench.faults.outcomes import LIMIT_S, Asked, Outcome

# Refused before the pipeline: no row is promised for these.
_BEFORE = frozenset({"deadline_exceeded", "queue_full", "rate_limit_exceeded", "bodies_full"})
_EXAMPLES = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Times:
    """Seconds by the monotonic clock."""

    struck: float
    mended: float
    whole: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """One fault's figures.

    Attributes:
        hit: requests that were being streamed, and that waited, when it struck.
        failed: errors by code, those told within a stream included.
        whole_s: seconds from its end until all was as before; None: it never was.
        failing_s: seconds from its beginning to the end of the last request that failed.
        slowest_s: of all requests, answered or not.
        slowest_error_s: the longest silence before an error.
        rows_missing: requests that reached the pipeline and have no row.
        problems: what is not as it should be.
    """

    name: str
    what: str
    hit: dict[str, int]
    sent: int
    answered: int
    failed: dict[str, int]
    wrong: int
    lost: int
    hung: int
    failed_over: int | None
    whole_s: float | None
    failing_s: float
    slowest_s: float
    slowest_error_s: float
    rows_due: int
    rows_missing: int
    rows_dropped: int
    problems: list[str] = field(default_factory=list)

    @property
    def good(self) -> bool:
        return not self.problems

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def rows_due(asked: Sequence[Asked]) -> set[str]:
    """Ids of the requests that must have a row: they reached the pipeline."""
    return {
        one.request_id
        for one in asked
        if one.request_id is not None
        and one.outcome in (Outcome.ANSWERED, Outcome.BROKEN, Outcome.REFUSED)
        and one.code not in _BEFORE
    }


def judge(
    name: str,
    what: str,
    asked: Sequence[Asked],
    *,
    codes: frozenset[str],
    times: Times,
    hit: dict[str, int],
    rows: set[str],
    dropped: int,
    failed_over: int | None,
    problems: Sequence[str],
) -> Verdict:
    """Figures and faults of what ended between the strike and the end of its aftermath.

    Args:
        codes: errors that clients may get.
        rows: ids that the ledger has.
        dropped: rows that the gateway says it had to drop.
    """
    outcomes = Counter(one.outcome for one in asked)
    failures = [one for one in asked if one.outcome is not Outcome.ANSWERED]
    due = rows_due(asked)
    verdict = Verdict(
        name=name,
        what=what,
        hit=hit,
        sent=len(asked),
        answered=outcomes[Outcome.ANSWERED],
        failed=dict(Counter(str(one.code) for one in failures if one.code is not None)),
        wrong=outcomes[Outcome.WRONG],
        lost=outcomes[Outcome.LOST],
        hung=outcomes[Outcome.HUNG],
        failed_over=failed_over,
        whole_s=None if times.whole is None else round(times.whole - times.mended, 1),
        failing_s=round(max((one.ended - times.struck for one in failures), default=0.0), 1),
        slowest_s=round(max((one.took_s for one in asked), default=0.0), 1),
        slowest_error_s=round(max((one.silent_s for one in failures), default=0.0), 1),
        rows_due=len(due),
        rows_missing=len(due - rows),
        rows_dropped=dropped,
        problems=list(problems),
    )
    verdict.problems.extend(_problems(verdict, failures, codes))
    return verdict


def _problems(verdict: Verdict, failures: Sequence[Asked], codes: frozenset[str]) -> list[str]:
    found = [
        f"{one.kind.value}: {one.outcome.value} with status {one.status} after "
        f"{one.took_s:.1f} s: {one.said[:200]}"
        for one in failures
        if one.outcome in (Outcome.WRONG, Outcome.LOST, Outcome.HUNG)
    ][:_EXAMPLES]
    if not verdict.answered:
        found.append("nothing was answered")
    unwanted = {code: count for code, count in verdict.failed.items() if code not in codes}
    if unwanted:
        found.append(f"errors that nobody should get here: {unwanted}")
        found += [one.said[:200] for one in failures if one.code in unwanted][:_EXAMPLES]
    if verdict.slowest_error_s > LIMIT_S:
        found.append(f"an error came after {verdict.slowest_error_s:.1f} s of silence")
    if verdict.rows_missing > verdict.rows_dropped:
        found.append(f"{verdict.rows_missing} requests have no row in the ledger")
    if verdict.whole_s is None:
        found.append("it was never whole again")
    return found
