"""What can go wrong in `cache`, each with its fields and one sentence that says what to do.

```
CacheError
├── EngineConfigError        (path, reason)           a configuration file that can't be read
├── EngineLoadsError         (reason)                 an answer that isn't SGLang's /v1/loads
├── GpuNotFoundError         (name, known)            a GPU whose memory isn't known
├── KvEventError             (reason)                 bytes that aren't a batch of KV events
├── LedgerUnavailableError   (reason, pending)        the database doesn't take rows at the moment
├── LedgerRowError           (request_id, reason)     a row that no database could store
├── MetricsFormatError       (source, reason)         a metrics page that can't be read
├── ModelConfigError         (path, reason)           a model folder that can't be planned from
├── ModelUnsupportedError    (architecture, reason)   a model whose KV isn't understood
├── PageSizeError            (ours, theirs)           an engine whose pages have another size
├── ReportBudgetError        (word)                   a hit rate to hold templates to that is none
├── ReportGroupError         (column, allowed)        a report asked for by a column that it lacks
├── ReportPageError          (path)                   the plots' script isn't installed
├── RequestLogError          (path, reason)           a request log that can't be opened or unpacked
├── TierAnswerError          (reason)                 an answer of the tier server not understood
└── TierSettingsError        (setting, value, rule)   tiers that LMCache or SGLang would refuse
```
"""

from collections.abc import Sequence
from pathlib import Path


class CacheError(Exception):
    """Root of everything that `cache` raises on purpose."""


class EngineConfigError(CacheError):
    """A file that is said to configure an engine, and can't be read as anything that does."""

    def __init__(self, *, path: Path, reason: str) -> None:
        self.path = path
        self.reason = reason
        super().__init__(path, reason)

    def __str__(self) -> str:
        return f"{self.path} can't be read as an engine's configuration: {self.reason}"


class EngineLoadsError(CacheError):
    """The engine's `/v1/loads` isn't what SGLang 0.5.23 answers."""

    def __init__(self, *, reason: str) -> None:
        self.reason = reason
        super().__init__(reason)

    def __str__(self) -> str:
        return (
            f"the engine's /v1/loads can't be read ({self.reason}): check that the engine is the "
            "SGLang release that Foreword is made for"
        )


class GpuNotFoundError(CacheError):
    """A GPU that isn't in the table."""

    def __init__(self, *, name: str, known: Sequence[str]) -> None:
        self.name = name
        self.known = tuple(known)
        super().__init__(name, self.known)

    def __str__(self) -> str:
        return (
            f"the memory of a GPU named {self.name!r} isn't known: give --gpu-memory-gib, or one "
            f"of {', '.join(self.known)}"
        )


class KvEventError(CacheError):
    """A message on an engine's event socket that isn't a batch of KV events."""

    def __init__(self, *, reason: str) -> None:
        self.reason = reason
        super().__init__(reason)

    def __str__(self) -> str:
        return (
            f"a message isn't a batch of KV events ({self.reason}): check that the address is that "
            "of SGLang's --kv-events-config and that no other publisher uses it"
        )


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


class ModelConfigError(CacheError):
    """A model's config.json, or the weights beside it, can't be read or lacks what is needed."""

    def __init__(self, *, path: str, reason: str) -> None:
        self.path = path
        self.reason = reason
        super().__init__(path, reason)

    def __str__(self) -> str:
        return f"no plan can be made from {self.path}: {self.reason}"


class ModelUnsupportedError(CacheError):
    """A model whose KV can't be computed; a guess would be worse than none."""

    def __init__(self, *, architecture: str, reason: str) -> None:
        self.architecture = architecture
        self.reason = reason
        super().__init__(architecture, reason)

    def __str__(self) -> str:
        return (
            f"the KV of {self.architecture} can't be planned: {self.reason}; start the engine and "
            "read `max_total_num_tokens` from its log instead"
        )


class PageSizeError(CacheError):
    """KV events in pages of another size than the prefix index was made for."""

    def __init__(self, *, ours: int, theirs: int) -> None:
        self.ours = ours
        self.theirs = theirs
        super().__init__(ours, theirs)

    def __str__(self) -> str:
        return (
            f"the engine's KV events have pages of {self.theirs} tokens, but the prefix index has "
            f"pages of {self.ours}: give all replicas one --page-size and restart the gateway"
        )


class ReportBudgetError(CacheError):
    """A report was asked to hold templates to a hit rate that isn't one, or to two at once."""

    def __init__(self, *, word: str) -> None:
        self.word = word
        super().__init__(word)

    def __str__(self) -> str:
        return (
            f"{self.word!r} is no hit rate to hold templates to: give a rate from 0 to 1, or in %, "
            "for all templates as 0.6 or for one as docqa=0.8 or docqa@2=0.8, each only once"
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


class ReportPageError(CacheError):
    """The report's HTML page can't be made, since plotly's script is missing."""

    def __init__(self, *, path: Path) -> None:
        self.path = path
        super().__init__(path)

    def __str__(self) -> str:
        return (
            f"the report's page needs plotly's script, and {self.path} can't be read: install "
            "Foreword's dependencies again, or ask for the report as text, Markdown or JSON"
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


class TierAnswerError(CacheError):
    """An answer that the guard's tier server doesn't give."""

    def __init__(self, *, reason: str) -> None:
        self.reason = reason
        super().__init__(reason)

    def __str__(self) -> str:
        return (
            f"the tier server's answer can't be understood ({self.reason}): check that its URL "
            "leads to an LMCache started by foreword_guard.tier of this release"
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
