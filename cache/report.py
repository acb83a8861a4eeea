"""A report, gathered from the ledger's database: every figure as of one moment.

What it holds is in `cache.report_values`; its forms are made elsewhere: `cache.report_text`,
`cache.report_markdown` and `cache.report_html` for people, `cache.report_json` for programs.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

import sqlalchemy as sa

from cache.alerts import (
    LEAST_REQUESTS,
    Budgets,
    TemplateRates,
    VersionFell,
    check_budgets,
    version_falls,
)
from cache.crosscheck import cross_check
from cache.engine_metrics import EngineDelta
from cache.flame import FlameNode
from cache.ledger import LedgerStatus
from cache.prefill_speed import PrefillSpeed
from cache.report_rest import add_up
from cache.report_times import over_time, ttft_split
from cache.report_values import Breakdown, Group, Report
from cache.savings import Savings
from cache.summary import Coverage, Summary, coverage, summaries

TOP = 20

__all__ = ["Prices", "Report", "load_report"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Prices:
    """What saved tokens are worth: the measured prefill speed, and a price if there is one.

    `gpus_per_rank` GPUs compute one prompt together; the price is in the operator's own currency.
    """

    speed: PrefillSpeed
    gpus_per_rank: int = 1
    per_gpu_hour: float | None = None


def load_report(
    connection: sa.Connection,
    *,
    now: datetime,
    since: datetime | None = None,
    until: datetime | None = None,
    by: Sequence[str] = ("template",),
    tenant: str | None = None,
    budgets: Budgets | None = None,
    counted: Sequence[EngineDelta] = (),
    ledger: LedgerStatus | None = None,
    flame: FlameNode | None = None,
    prices: Prices | None = None,
    top: int = TOP,
) -> Report:
    """The report over one window of the ledger, all of it as of one moment.

    On PostgreSQL that takes a connection at REPEATABLE READ (`app.database.snapshot`).

    Args:
        now: time that the report says it was made.
        since, until: requests that ended in `since` <= end < `until`; None is without a bound.
        by: columns to group by, among `cache.summary.GROUPS`.
        tenant: the only one whose requests count; None is all.
        budgets: hit rates that templates are held to.
        counted: what the engine counted, for the cross-check, in windows of its own: the longest
            first (`cross_check`).
        ledger: the writer's state, so that the report can say what is missing from it.
        flame: the prefix index's, as far as it remembers; it has no window.
        prices: for the savings; None where the prefill speed isn't known.
        top: groups shown of each kind, those with most prompt tokens; the rest is added up.

    Raises:
        ReportGroupError: a column that isn't a group.
    """
    _begin_sqlite(connection)
    window = coverage(connection, since=since, until=until)

    def found(*columns: str) -> list[Summary]:
        by_size = summaries(
            connection, since=window.since, until=window.until, by=columns, tenant=tenant
        )
        return sorted(by_size, key=lambda summary: -summary.prompt.tokens)

    templates, total = found("template"), next(iter(found()), None)
    times = over_time(
        connection,
        [summary.group["template"] for summary in templates],
        since=window.since,
        until=window.until,
        tenant=tenant,
    )
    return Report(
        made_at=now,
        since=window.since,
        until=window.until,
        asked_since=since,
        asked_until=until,
        first_at=times.everything.points[0].at if times else None,
        groups=breakdown(by, templates if tuple(by) == ("template",) else found(*by), top),
        tenants=breakdown(("tenant",), found("tenant"), top),
        modes=breakdown(("mode",), found("mode"), top),
        replicas=breakdown(("replica",), found("replica"), top),
        collections=breakdown(("collection",), found("collection"), top),
        total=None if total is None else Group.of(total),
        over_time=times,
        ttft=None if total is None else ttft_split(total),
        savings=None if total is None else _savings(total, prices),
        falls=_falls(connection, templates, window, tenant),
        budgets=check_budgets([_rates(s) for s in templates], budgets) if budgets else (),
        flame=flame,
        cross_check=cross_check(connection, *counted) if counted else None,
        ledger=ledger,
    )


def breakdown(by: Sequence[str], found: Sequence[Summary], top: int) -> Breakdown:
    """The first `top` groups, and the others as one."""
    rest = found[top:]
    return Breakdown(
        by=tuple(by),
        groups=tuple(Group.of(summary) for summary in found[:top]),
        rest=Group.of(add_up(rest)) if rest else None,
        rest_groups=len(rest),
    )


def _rates(summary: Summary) -> TemplateRates:
    return TemplateRates(
        template=summary.group["template"] or "",
        requests=summary.requests,
        hit=summary.hit,
        ideal_rate=Group.of(summary).ideal_rate,
    )


def _falls(
    connection: sa.Connection,
    templates: Sequence[Summary],
    window: Coverage,
    tenant: str | None,
) -> tuple[VersionFell, ...]:
    """Falls of versions in the window, also against versions that were mostly used before it."""
    now = {summary.group["template"]: _rates(summary) for summary in templates}
    if window.since is None:
        return version_falls(now.values())
    ever = [_rates(s) for s in summaries(connection, until=window.until, tenant=tenant)]
    scarce = [rates for rates in ever if not _is_enough(now.get(rates.template))]
    enough = [rates for rates in now.values() if _is_enough(rates)]
    return tuple(fall for fall in version_falls([*enough, *scarce]) if fall.now in enough)


def _is_enough(rates: TemplateRates | None) -> bool:
    return rates is not None and rates.hit.requests >= LEAST_REQUESTS


def _savings(total: Summary, prices: Prices | None) -> Savings | None:
    if prices is None:
        return None
    fall = Group.of(total).waterfall
    return Savings(
        saved_tokens=total.hit.cached_tokens,
        lost_tokens=None if fall is None else fall.lost_tokens,
        requests=total.hit.requests,
        tokens_per_s=prices.speed.tokens_per_s,
        measured_tokens=prices.speed.tokens,
        gpus_per_rank=prices.gpus_per_rank,
        price_per_gpu_hour=prices.per_gpu_hour,
    )


def _begin_sqlite(connection: sa.Connection) -> None:
    """Open the transaction that Python's driver leaves out before a SELECT."""
    driver = connection.connection.dbapi_connection
    if connection.dialect.name == "sqlite" and driver and not driver.in_transaction:
        connection.exec_driver_sql("BEGIN")
