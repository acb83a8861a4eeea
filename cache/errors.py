"""What can go wrong in `cache`, each with its fields and one sentence that says what to do.

```
CacheError
├── LedgerUnavailableError   (reason, pending)        the database doesn't take rows at the moment
├── LedgerRowError           (request_id, reason)     a row that no database could store
├── MetricsFormatError       (source, reason)         a metrics page that can't be read
├── ReportGroupError         (column, allowed)        a report asked for by a column that it lacks
├── RequestLogError          (path, reason)           a request log that can't be opened or unpacked
└── TierSettingsError        (setting, value, rule)   tiers that LMCache or SGLang would refuse
```
"""

from collections.abc import Sequence
from pathlib import Path


class CacheError(Exception):
    """Root of everything that `cache` raises on purpose."""


class LedgerUnavailableError(CacheError):
    """The ledger's database refused a batch; its rows wait in memory and are tried again."""

    def __init__(self, *, reason: str, pending: int) -> None:
        self.reason = reason
        self.pending = pending
        super().__init__(reason, pending)

    def __str__(self) -> str:
        return (
            f"the ledger can't write ({self.reason}); {self.pending} rows wait in memory: check "
            "that its database is reachable, writable, not locked by another program, and has room"
        )


class LedgerRowError(CacheError):
    """One row holds something that the database has no place for; that row alone was dropped."""

    def __init__(self, *, request_id: str, reason: str) -> None:
        self.request_id = request_id
        self.reason = reason
        super().__init__(request_id, reason)

    def __str__(self) -> str:
        return (
            f"the ledger row of request {self.request_id!r} can't be stored ({self.reason}) and "
            "was dropped: its labels or figures are out of bounds; please report it as a bug"
        )


class MetricsFormatError(CacheError):
    """Text that is not the Prometheus text format, or a counter whose value is not a count."""

    def __init__(self, *, source: str, reason: str) -> None:
        self.source = source
        self.reason = reason
        super().__init__(source, reason)

    def __str__(self) -> str:
        return (
            f"the metrics of {self.source} can't be read ({self.reason}): check that its URL leads "
            "to a /metrics page and that metrics are switched on"
        )


class ReportGroupError(CacheError):
    """A report was asked to group by a column that isn't one of its groups."""

    def __init__(self, *, column: str, allowed: Sequence[str]) -> None:
        self.column = column
        self.allowed = tuple(allowed)
        super().__init__(column, self.allowed)

    def __str__(self) -> str:
        return (
            f"a report can't be grouped by {self.column!r}: choose among {', '.join(self.allowed)}"
        )


class RequestLogError(CacheError):
    """A request log that can't be opened, read or unpacked; single bad lines are only counted."""

    def __init__(self, *, path: Path, reason: str) -> None:
        self.path = path
        self.reason = reason
        super().__init__(path, reason)

    def __str__(self) -> str:
        return (
            f"the request log {self.path} can't be read ({self.reason}): give a JSON Lines file, "
            "plain or gzip, or `-` for standard input"
        )


class TierSettingsError(CacheError):
    """A tier setting out of its bounds, found before any process is started."""

    def __init__(self, *, setting: str, value: object, rule: str) -> None:
        self.setting = setting
        self.value = value
        self.rule = rule
        super().__init__(setting, value, rule)

    def __str__(self) -> str:
        return f"tier setting {self.setting} is {self.value!r}, but must be {self.rule}"
