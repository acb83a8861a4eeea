"""Two counts of the same tokens: what the responses said, and what the engine's own counters say.

They agree when every request's end was recorded and nothing else talked to the engine under our
labels. What can't be compared is told, never netted: requests whose figure is unknown, an engine
that started anew, traffic without a label.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

import sqlalchemy as sa

from cache.engine_metrics import CachedTokens, CacheSource, EngineDelta
from cache.labels import OTHER
from cache.summary import Coverage, Summary, coverage, summaries


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
    """Both counts of one template; None is all templates, where the engine counts no label.

    `responses` is what the `known_requests` said; the `unknown_requests` said nothing.
    """

    template: str | None
    responses: SourceTokens
    engine: SourceTokens
    known_requests: int = 0
    unknown_requests: int = 0

    @property
    def is_unknown(self) -> bool:
        """Whether there were requests, and not one response said anything."""
        return self.unknown_requests > 0 and not self.known_requests

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
    counted for requests without a template label: the gateway's own warmings and checks, and other
    clients'. It is in no line.
    Without `is_whole` rows at the window's edge are no longer kept, and nothing is compared.
    """

    since: datetime
    until: datetime
    lines: tuple[CrossCheckLine, ...]
    unknown_requests: int
    resets: int
    unlabelled_tokens: int
    is_whole: bool = True

    @property
    def difference_tokens(self) -> int:
        return sum(line.difference_tokens for line in self.lines)

    @property
    def difference_ratio(self) -> float | None:
        """Relative to the engine's count; None where that is 0 and the responses' isn't."""
        if not self.is_whole:
            return None
        return _ratio(self.difference_tokens, sum(line.engine.total for line in self.lines))


def cross_check(connection: sa.Connection, *windows: EngineDelta) -> CrossCheck:
    """Compare the ledger with what the engine counted in the same window.

    Of several windows, the longest first, that is the first one of which all rows are kept that
    its edges need: sums of whole hours can't be compared with a count that begins within one.

    Requests are taken by the time when they ended; call `Ledger.flush` first. One that ends just
    around either snapshot may be on one side only. Where the ledger's roll-ups have folded rare
    templates into `OTHER`, so is the engine's count of them.

    Raises:
        ValueError: no window.
    """
    if not windows:
        raise ValueError("a cross-check needs a window")
    whole = (counted for counted in windows if _is_whole(connection, counted))
    counted = next(whole, None)
    if counted is None:
        return _unknown(windows[0])
    return _compared(connection, counted)


def _is_whole(connection: sa.Connection, counted: EngineDelta) -> bool:
    asked = Coverage(since=counted.since, until=counted.until)
    return coverage(connection, since=asked.since, until=asked.until) == asked


def _unknown(counted: EngineDelta) -> CrossCheck:
    return CrossCheck(
        since=counted.since,
        until=counted.until,
        lines=(),
        unknown_requests=0,
        resets=counted.resets,
        unlabelled_tokens=0,
        is_whole=False,
    )


def _compared(connection: sa.Connection, counted: EngineDelta) -> CrossCheck:
    since, until = counted.since, counted.until
    found = summaries(connection, since=since, until=until, by=("template",))
    replicas = summaries(connection, since=since, until=until, by=("replica",))
    responses = _responses(found)
    asked = _asked(found)
    engine = _engine(counted.cached)
    unlabelled = engine.pop(None, SourceTokens())
    if not engine and any(tokens.total for tokens in responses.values()):
        # The engine wasn't told to count by template: only the sums can be compared.
        lines = [_line(None, _sum(responses), unlabelled, _all(asked))]
        unlabelled = SourceTokens()
    else:
        lines = _lines(responses, engine, asked)
    return CrossCheck(
        since=counted.since,
        until=counted.until,
        lines=tuple(lines),
        # A request that was refused before it was sent to a replica is in nobody's count.
        unknown_requests=sum(
            of_replica.cached.unknown_requests
            for of_replica in replicas
            if of_replica.group["replica"] is not None
        ),
        resets=counted.resets,
        unlabelled_tokens=unlabelled.total,
    )


def _responses(found: Sequence[Summary]) -> dict[str, SourceTokens]:
    return {summary.group["template"] or "": _source_tokens(summary) for summary in found}


def _source_tokens(summary: Summary) -> SourceTokens:
    gpu, storage = summary.by_tier.gpu.tokens, summary.by_tier.storage.tokens
    rest = max(0, summary.cached.tokens - gpu - storage)
    return SourceTokens(gpu=gpu, storage=storage, unsplit=rest)


class _Asked(NamedTuple):
    """Requests by whether their cached tokens are known."""

    known: int = 0
    unknown: int = 0


def _asked(found: Sequence[Summary]) -> dict[str, _Asked]:
    return {
        summary.group["template"] or "": _Asked(
            summary.cached.known_requests, summary.cached.unknown_requests
        )
        for summary in found
    }


def _all(asked: Mapping[str, _Asked]) -> _Asked:
    return _Asked(sum(a.known for a in asked.values()), sum(a.unknown for a in asked.values()))


def _line(
    template: str | None, responses: SourceTokens, engine: SourceTokens, asked: _Asked
) -> CrossCheckLine:
    return CrossCheckLine(
        template=template,
        responses=responses,
        engine=engine,
        known_requests=asked.known,
        unknown_requests=asked.unknown,
    )


def _lines(
    responses: Mapping[str, SourceTokens],
    engine: Mapping[str | None, SourceTokens],
    asked: Mapping[str, _Asked],
) -> list[CrossCheckLine]:
    counted: defaultdict[str, SourceTokens] = defaultdict(SourceTokens)
    for template, tokens in engine.items():
        assert template is not None
        is_folded = OTHER in responses and template not in responses
        name = OTHER if is_folded else template
        counted[name] = _plus(counted[name], tokens)
    return [
        _line(
            template,
            responses.get(template, SourceTokens()),
            counted.get(template, SourceTokens()),
            asked.get(template, _Asked()),
        )
        for template in sorted({*responses, *counted})
    ]


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
