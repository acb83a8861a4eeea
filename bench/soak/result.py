"""What a soak showed: memory, and the checks of what was answered and written down. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.soak.judge import Judgement, judge
from bench.soak.ledger_checks import LedgerFindings
from bench.soak.options import SoakOptions
from bench.soak.run import Life
from bench.soak.samples import Sample

_MILLION = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One thing that must be so."""

    name: str
    good: bool
    seen: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """A whole soak.

    Attributes:
        requests: of all lives, without probes.
        life_requests: of the last life, probes included.
        statuses: what clients saw in the last life.
    """

    options: SoakOptions
    requests: int
    life_requests: int
    statuses: dict[str, int]
    memory: Judgement
    findings: LedgerFindings
    checks: tuple[Check, ...]

    @property
    def good(self) -> bool:
        """Every check holds, and memory was not seen to grow."""
        return all(check.good for check in self.checks) and self.memory.flat is not False

    @property
    def is_million(self) -> bool:
        return self.requests >= _MILLION


def result_of(
    options: SoakOptions, life: Life, samples: Sequence[Sample], findings: LedgerFindings
) -> Result:
    """Put together what was seen."""
    return Result(
        options=options,
        requests=samples[-1].overall if samples else 0,
        life_requests=life.requests,
        statuses=dict(life.statuses.most_common()),
        memory=judge(samples),
        findings=findings,
        checks=tuple(_checks(life, samples, findings)),
    )


def rejudged(record: dict[str, Any], samples: Sequence[Sample]) -> Result:
    """A result as it was kept, memory judged anew by the rule of today."""
    options = record["options"] | {"folder": Path(record["options"]["folder"])}
    findings = record["findings"]
    return Result(
        options=SoakOptions(**options),
        requests=record["requests"],
        life_requests=record["life_requests"],
        statuses=record["statuses"],
        memory=judge(samples),
        findings=LedgerFindings(**findings | {"differences": tuple(findings["differences"])}),
        checks=tuple(Check(**check) for check in record["checks"]),
    )


def _checks(life: Life, samples: Sequence[Sample], findings: LedgerFindings) -> list[Check]:
    last = samples[-1]
    failed = failures(life)
    return [
        _equal("a ledger row for each request", last.ledger_rows, life.requests),
        _none("rows that the ledger dropped", last.ledger_dropped),
        _none("rows whose re-used, lost and new tokens don't add up", findings.unbalanced),
        _none("rows with less ideal than was re-used", findings.below_cached),
        _none("figures where roll-ups and rows disagree", len(findings.differences)),
        Check(
            name="no failure that the simulator didn't cause",
            good=failed <= life.ordered,
            seen=f"{failed:,} failed, {life.ordered:,} were ordered",
        ),
        _none("faults of accounting", max(sample.accounting_errors for sample in samples)),
        Check(
            name="all requests had ended before each sample",
            good=life.settled and not any(sample.in_flight for sample in samples),
            seen="so" if life.settled else "the ledger or a request lagged behind",
        ),
    ]


def failures(life: Life) -> int:
    """Requests that ended in a 5xx, in an error within a stream, or with a broken connection."""
    return sum(
        count
        for outcome, count in life.statuses.items()
        if outcome in ("broken", "lost") or (outcome.isdigit() and int(outcome) >= 500)
    )


def _none(name: str, count: float) -> Check:
    return Check(name=f"no {name}", good=not count, seen=f"{count:,.0f}")


def _equal(name: str, seen: int, wanted: int) -> Check:
    return Check(name=name, good=seen == wanted, seen=f"{seen:,} for {wanted:,}")
