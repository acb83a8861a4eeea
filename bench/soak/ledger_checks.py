"""What the ledger must say at the end: a row for each request, and sums that add up."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from cache.summary import rescan, summaries
from cache.tables import ledger, ledger_days, ledger_hours

_COLUMNS = (
    ledger.c.prompt_tokens,
    ledger.c.ideal_tokens,
    ledger.c.cached_tokens,
    ledger.c.new_tokens,
    ledger.c.lost,
    ledger.c.verdict,
    ledger.c.status,
)
_BATCH = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """Rows, and kilobytes of the file with its write-ahead log."""

    rows: int
    rollup_rows: int
    kilobytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerFindings:
    """What all rows together say.

    Attributes:
        verdicts, statuses: rows by each; `none` are those that never reached the engine.
        unbalanced: rows where re-used, lost and new tokens are known and aren't the prompt's.
        below_cached: rows whose ideal is less than what the engine itself re-used.
        differences: figures where the roll-ups and the rows disagree.
    """

    rows: int
    verdicts: dict[str, int]
    statuses: dict[str, int]
    lost_tokens: dict[str, int]
    unbalanced: int
    below_cached: int
    differences: tuple[str, ...]


def open_ledger(file: Path) -> sa.Engine:
    """The gateway's database, to be read only."""
    return sa.create_engine(f"sqlite:///file:{file}?mode=ro&uri=true")


def sizes(engine: sa.Engine, file: Path) -> Sizes:
    with engine.connect() as connection:
        rows, hours, days = (
            connection.scalar(sa.select(sa.func.count()).select_from(table)) or 0
            for table in (ledger, ledger_hours, ledger_days)
        )
    files = (file, file.with_name(f"{file.name}-wal"))
    kilobytes = sum(part.stat().st_size for part in files if part.exists()) // 1024
    return Sizes(rows=rows, rollup_rows=hours + days, kilobytes=kilobytes)


def find(engine: sa.Engine) -> LedgerFindings:
    """Read every row once."""
    verdicts: Counter[str] = Counter()
    statuses: Counter[str] = Counter()
    lost: Counter[str] = Counter()
    unbalanced = below_cached = 0
    with engine.connect() as connection:
        for row in _rows(connection):
            verdicts[row.verdict or "none"] += 1
            statuses[row.status] += 1
            lost.update(row.lost or {})
            unbalanced += not balanced(row)
            if row.ideal_tokens is not None and row.cached_tokens is not None:
                below_cached += row.ideal_tokens < row.cached_tokens
        differences = tuple(_differences(connection))
    return LedgerFindings(
        rows=statuses.total(),
        verdicts=dict(verdicts.most_common()),
        statuses=dict(statuses.most_common()),
        lost_tokens=dict(lost.most_common()),
        unbalanced=unbalanced,
        below_cached=below_cached,
        differences=differences,
    )


def balanced(row: Any) -> bool:
    """Re-used, lost and new tokens add up to the prompt, where all are known."""
    parts = (row.prompt_tokens, row.cached_tokens, row.new_tokens)
    if None in parts or row.lost is None:
        return True
    return bool(row.cached_tokens + sum(row.lost.values()) + row.new_tokens == row.prompt_tokens)


def _rows(connection: sa.Connection) -> Iterator[Any]:
    yield from connection.execution_options(yield_per=_BATCH).execute(sa.select(*_COLUMNS))


def _differences(connection: sa.Connection) -> Iterator[str]:
    by_hours, by_rows = summaries(connection, by=()), rescan(connection, by=())
    if len(by_hours) != len(by_rows):
        yield f"{len(by_hours)} totals from roll-ups, {len(by_rows)} from rows"
        return
    for one, other in zip(by_hours, by_rows, strict=True):
        for name in (field.name for field in fields(one)):
            left, right = getattr(one, name), getattr(other, name)
            if left != right:
                yield f"{name}: {left} in the roll-ups, {right} in the rows"
