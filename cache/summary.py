"""Sums over the ledger, made by the database: what was re-used, from where, and how soon.

Percentiles are by nearest rank: p90 is the smallest observed value that at least 90 % of the
observed values don't exceed. So it is always a time that some request really took. The hit rate is
weighted by tokens: cached tokens over prompt tokens, both summed over the requests for which both
are known.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

import sqlalchemy as sa

from cache.errors import ReportGroupError
from cache.tables import ledger

GROUPS = ("template", "tenant", "collection", "mode", "replica", "status")


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenSum:
    """A sum over the requests whose figure is known, and how many of either kind there were."""

    tokens: int
    known_requests: int
    unknown_requests: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TierSums:
    """Cached tokens by tier; `storage` is RAM, SSD and Redis, also where they aren't told apart."""

    gpu: TokenSum
    ram: TokenSum
    ssd: TokenSum
    redis: TokenSum
    storage: TokenSum


@dataclass(frozen=True, slots=True, kw_only=True)
class HitRate:
    """Cached over prompt tokens, over the `requests` for which both are known."""

    cached_tokens: int
    prompt_tokens: int
    requests: int

    @property
    def rate(self) -> float | None:
        """In 0 … 1; None where no prompt token is known."""
        return self.cached_tokens / self.prompt_tokens if self.prompt_tokens else None


@dataclass(frozen=True, slots=True, kw_only=True)
class TtftPercentiles:
    """Nearest-rank percentiles in seconds over the `requests` that had a first token."""

    requests: int
    p50_s: float | None
    p90_s: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """One group of requests, failed and aborted ones included."""

    group: Mapping[str, str | None]
    requests: int
    errors: int
    aborted: int
    prompt: TokenSum
    completion: TokenSum
    cached: TokenSum
    by_tier: TierSums
    hit: HitRate
    ttft: TtftPercentiles


def summaries(
    connection: sa.Connection,
    *,
    since: datetime | None = None,
    until: datetime | None = None,
    by: Sequence[str] = ("template",),
) -> list[Summary]:
    """The ledger's requests in `since` <= end < `until`, one summary a group, in the groups' order.

    Args:
        by: columns among `GROUPS`; none gives a single summary of everything (if there is any).

    Raises:
        ReportGroupError: a column that is not among `GROUPS`.
    """
    keys = _group_columns(by)
    where = _window(since, until)
    times = _ttft_percentiles(connection, keys, where)
    statement = sa.select(*keys, *_sums()).where(*where).group_by(*keys)
    found = [
        _summary(by, row._mapping, times.get(tuple(row[: len(keys)]), _NO_TTFT))
        for row in connection.execute(statement)
        if row.requests
    ]
    return sorted(found, key=lambda summary: [(v is None, v or "") for v in summary.group.values()])


_TOKEN_COLUMNS = {
    "prompt": ledger.c.prompt_tokens,
    "completion": ledger.c.completion_tokens,
    "cached": ledger.c.cached_tokens,
    "gpu": ledger.c.cached_gpu,
    "ram": ledger.c.cached_ram,
    "ssd": ledger.c.cached_ssd,
    "redis": ledger.c.cached_redis,
    "storage": ledger.c.cached_storage,
}
_NO_TTFT = TtftPercentiles(requests=0, p50_s=None, p90_s=None)


def _group_columns(by: Sequence[str]) -> list[sa.Column[str | None]]:
    for column in by:
        if column not in GROUPS:
            raise ReportGroupError(column=column, allowed=GROUPS)
    return [ledger.c[column] for column in by]


def _window(since: datetime | None, until: datetime | None) -> list[sa.ColumnElement[bool]]:
    where: list[sa.ColumnElement[bool]] = []
    if since is not None:
        where.append(ledger.c.at >= since)
    if until is not None:
        where.append(ledger.c.at < until)
    return where


def _sums() -> list[sa.Label[int]]:
    both = ledger.c.cached_tokens.is_not(None) & ledger.c.prompt_tokens.is_not(None)
    sums = [
        sa.func.count().label("requests"),
        _count_if(ledger.c.status == "error").label("errors"),
        _count_if(ledger.c.status == "aborted").label("aborted"),
        _count_if(both).label("hit_requests"),
        _sum_if(both, ledger.c.cached_tokens).label("hit_cached"),
        _sum_if(both, ledger.c.prompt_tokens).label("hit_prompt"),
    ]
    for name, column in _TOKEN_COLUMNS.items():
        sums.append(sa.func.coalesce(sa.func.sum(column), 0).label(f"{name}_tokens"))
        sums.append(sa.func.count(column).label(f"{name}_known"))
    return sums


def _count_if(condition: sa.ColumnElement[bool]) -> sa.ColumnElement[int]:
    return sa.func.coalesce(sa.func.sum(sa.case((condition, 1), else_=0)), 0)


def _sum_if(condition: sa.ColumnElement[bool], column: sa.Column[int]) -> sa.ColumnElement[int]:
    return sa.func.coalesce(sa.func.sum(sa.case((condition, column), else_=0)), 0)


def _summary(by: Sequence[str], values: sa.RowMapping, ttft: TtftPercentiles) -> Summary:

    def token_sum(name: str) -> TokenSum:
        known = int(values[f"{name}_known"])
        return TokenSum(
            tokens=int(values[f"{name}_tokens"]),
            known_requests=known,
            unknown_requests=int(values["requests"]) - known,
        )

    return Summary(
        group={column: values[column] for column in by},
        requests=int(values["requests"]),
        errors=int(values["errors"]),
        aborted=int(values["aborted"]),
        prompt=token_sum("prompt"),
        completion=token_sum("completion"),
        cached=token_sum("cached"),
        by_tier=TierSums(
            gpu=token_sum("gpu"),
            ram=token_sum("ram"),
            ssd=token_sum("ssd"),
            redis=token_sum("redis"),
            storage=token_sum("storage"),
        ),
        hit=HitRate(
            cached_tokens=int(values["hit_cached"]),
            prompt_tokens=int(values["hit_prompt"]),
            requests=int(values["hit_requests"]),
        ),
        ttft=ttft,
    )


def _ttft_percentiles(
    connection: sa.Connection,
    keys: Sequence[sa.Column[str | None]],
    where: Sequence[sa.ColumnElement[bool]],
) -> dict[tuple[object, ...], TtftPercentiles]:
    """Percentiles by group; the database sorts, so that no row travels for them."""
    partition = list(keys) or None
    ranked = (
        sa.select(
            *keys,
            ledger.c.ttft_s.label("ttft_s"),
            sa.func.row_number()
            .over(partition_by=partition, order_by=ledger.c.ttft_s)
            .label("rank"),
            sa.func.count().over(partition_by=partition).label("n"),
        )
        .where(ledger.c.ttft_s.is_not(None), *where)
        .subquery()
    )
    groups = [ranked.c[key.name] for key in keys]

    def at_rank(percent: int) -> sa.ColumnElement[float]:
        # ceil(percent * n / 100) in whole numbers, so that no rounding can shift the rank
        rank = (ranked.c.n * percent + 99) // 100
        return sa.func.max(sa.case((ranked.c.rank == rank, ranked.c.ttft_s)))

    statement = sa.select(*groups, sa.func.max(ranked.c.n), at_rank(50), at_rank(90)).group_by(
        *groups
    )
    return {
        tuple(row[:-3]): TtftPercentiles(requests=row[-3], p50_s=row[-2], p90_s=row[-1])
        for row in connection.execute(statement)
        if row[-3]
    }
