"""Two counts of the same tokens: what the responses said, and what the engine's own counters say.

They agree when every request's end was recorded and nothing else talked to the engine under our
labels. What can't be compared is told, never netted: requests whose figure is unknown, an engine
that started anew, traffic without a label.
"""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

import sqlalchemy as sa

from cache.engine_metrics import CachedTokens, CacheSource, EngineDelta
from cache.tables import ledger


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceTokens:
    """Cached tokens from the GPU, from below it, and those whose source isn't known."""

    gpu: int = 0
    storage: int = 0
    unsplit: int = 0

    @property
    def total(self) -> int:
        return self.gpu + self.storage + self.unsplit


@dataclass(frozen=True, slots=True, kw_only=True)
class CrossCheckLine:
    """Both counts of one template; None is all templates, where the engine counts no label."""

    template: str | None
    responses: SourceTokens
    engine: SourceTokens

    @property
    def difference_tokens(self) -> int:
        """Responses minus engine."""
        return self.responses.total - self.engine.total

    @property
    def difference_ratio(self) -> float | None:
        return _ratio(self.difference_tokens, self.engine.total)


@dataclass(frozen=True, slots=True, kw_only=True)
class CrossCheck:
    """Both counts for the requests that ended in `since` … `until`.

    `unknown_requests` went to an engine: they are in its count, as far as it finished them, and in
    no response's.
    With `resets` > 0 the engine's figures are lower bounds. `unlabelled_tokens` is what the engine
    counted for requests without a template label, such as another client's; it is in no line.
    """

    since: datetime
    until: datetime
    lines: tuple[CrossCheckLine, ...]
    unknown_requests: int
    resets: int
    unlabelled_tokens: int

    @property
    def difference_tokens(self) -> int:
        return sum(line.difference_tokens for line in self.lines)

    @property
    def difference_ratio(self) -> float | None:
        """Relative to the engine's count; None where that is 0 and the responses' isn't."""
        return _ratio(self.difference_tokens, sum(line.engine.total for line in self.lines))


def cross_check(connection: sa.Connection, counted: EngineDelta) -> CrossCheck:
    """Compare the ledger with what the engine counted in the same window.

    Rows are taken by the time their request ended; call `Ledger.flush` first. A request that ends
    just around either snapshot may be on one side only.
    """
    responses, unknown_requests = _responses(connection, counted.since, counted.until)
    engine = _engine(counted.cached)
    unlabelled = engine.pop(None, SourceTokens())
    if not engine and any(tokens.total for tokens in responses.values()):
        # The engine wasn't told to count by template: only the sums can be compared.
        lines = [CrossCheckLine(template=None, responses=_sum(responses), engine=unlabelled)]
        unlabelled = SourceTokens()
    else:
        lines = [
            CrossCheckLine(
                template=template,
                responses=responses.get(template, SourceTokens()),
                engine=engine.get(template, SourceTokens()),
            )
            for template in sorted({*responses, *(name for name in engine if name is not None)})
        ]
    return CrossCheck(
        since=counted.since,
        until=counted.until,
        lines=tuple(lines),
        unknown_requests=unknown_requests,
        resets=counted.resets,
        unlabelled_tokens=unlabelled.total,
    )


def _responses(
    connection: sa.Connection, since: datetime, until: datetime
) -> tuple[dict[str, SourceTokens], int]:
    split = ledger.c.cached_gpu.is_not(None) & ledger.c.cached_storage.is_not(None)
    unsplit = sa.case((split, 0), else_=ledger.c.cached_tokens)
    # A request that was refused before it was sent to a replica is in nobody's count.
    unknown_here = ledger.c.cached_tokens.is_(None) & ledger.c.replica.is_not(None)
    statement = (
        sa.select(
            ledger.c.template,
            sa.func.coalesce(sa.func.sum(sa.case((split, ledger.c.cached_gpu), else_=0)), 0),
            sa.func.coalesce(sa.func.sum(sa.case((split, ledger.c.cached_storage), else_=0)), 0),
            sa.func.coalesce(sa.func.sum(unsplit), 0),
            sa.func.sum(sa.case((unknown_here, 1), else_=0)),
        )
        .where(ledger.c.at >= since, ledger.c.at < until)
        .group_by(ledger.c.template)
    )
    tokens: dict[str, SourceTokens] = {}
    unknown_requests = 0
    for template, gpu, storage, rest, unknown in connection.execute(statement):
        tokens[template] = SourceTokens(gpu=int(gpu), storage=int(storage), unsplit=int(rest))
        unknown_requests += int(unknown)
    return tokens, unknown_requests


def _engine(cached: tuple[CachedTokens, ...]) -> dict[str | None, SourceTokens]:
    """The engine's series by template, over all tenants, in our words for the sources."""
    tokens: defaultdict[str | None, SourceTokens] = defaultdict(SourceTokens)
    for series in cached:
        match series.source:
            case CacheSource.DEVICE:
                more = SourceTokens(gpu=series.tokens)
            case CacheSource.HOST | CacheSource.STORAGE:
                more = SourceTokens(storage=series.tokens)
            case CacheSource.TOTAL:
                more = SourceTokens(unsplit=series.tokens)
        tokens[series.template] = _plus(tokens[series.template], more)
    return dict(tokens)


def _sum(tokens: Mapping[str, SourceTokens]) -> SourceTokens:
    total = SourceTokens()
    for part in tokens.values():
        total = _plus(total, part)
    return total


def _plus(one: SourceTokens, other: SourceTokens) -> SourceTokens:
    return SourceTokens(
        gpu=one.gpu + other.gpu,
        storage=one.storage + other.storage,
        unsplit=one.unsplit + other.unsplit,
    )


def _ratio(difference_tokens: int, engine_tokens: int) -> float | None:
    if engine_tokens:
        return difference_tokens / engine_tokens
    return None if difference_tokens else 0.0
