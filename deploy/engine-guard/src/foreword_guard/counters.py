"""What one adapter, and RAM, did since the tier's start. Thread-safe, no LMCache in here."""

import threading
from collections.abc import Mapping
from dataclasses import asdict, dataclass


@dataclass(slots=True)
class LookupCounts:
    """`late` missed the deadline; `skipped` were not asked."""

    tasks: int = 0
    seconds: float = 0.0
    late: int = 0
    skipped: int = 0


@dataclass(slots=True)
class LoadCounts:
    """`chunks` and `bytes` (in RAM) are of what was served; `failed` are chunks.

    `seconds` are of loads that served something, and of late ones, whether they did or not.
    """

    tasks: int = 0
    chunks: int = 0
    bytes: int = 0
    seconds: float = 0.0
    failed: int = 0
    late: int = 0


@dataclass(slots=True)
class StoreCounts:
    """`failed` and `skipped` are chunks."""

    tasks: int = 0
    chunks: int = 0
    bytes: int = 0
    seconds: float = 0.0
    failed: int = 0
    skipped: int = 0


class AdapterCounters:
    """The counters of one adapter."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._lookups = LookupCounts()
        self._loads = LoadCounts()
        self._stores = StoreCounts()
        self._rejected = 0

    def lookup(self, seconds: float, *, late: bool = False) -> None:
        with self._lock:
            self._lookups.tasks += 1
            self._lookups.seconds += seconds
            self._lookups.late += late

    def lookup_skipped(self) -> None:
        with self._lock:
            self._lookups.skipped += 1

    def load(
        self, seconds: float, *, chunks: int, size_bytes: int, failed: int, late: bool = False
    ) -> None:
        with self._lock:
            self._loads.tasks += 1
            self._loads.chunks += chunks
            self._loads.bytes += size_bytes
            self._loads.seconds += seconds if chunks or late else 0.0
            self._loads.failed += failed
            self._loads.late += late

    def load_refused(self, chunks: int) -> None:
        """A load that wasn't begun: no task, or it would make the others look quicker."""
        with self._lock:
            self._loads.failed += chunks

    def store(self, seconds: float, *, chunks: int, size_bytes: int, done: bool) -> None:
        with self._lock:
            self._stores.tasks += 1
            if done:
                self._stores.chunks += chunks
                self._stores.bytes += size_bytes
                self._stores.seconds += seconds
            else:
                self._stores.failed += chunks

    def store_skipped(self, chunks: int) -> None:
        with self._lock:
            self._stores.skipped += chunks

    def rejected(self, chunks: int) -> None:
        with self._lock:
            self._rejected += chunks

    def snapshot(self) -> Mapping[str, object]:
        """As the status route shows them."""
        with self._lock:
            return {
                "lookups": asdict(self._lookups),
                "loads": asdict(self._loads),
                "stores": asdict(self._stores),
                "rejected": self._rejected,
            }


class RamCounters:
    """Loads from RAM into the engine, and what was evicted from each tier."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._chunks = 0
        self._bytes = 0
        self._seconds = 0.0
        self._evictions: dict[str, int] = {}

    def load(self, chunks: int, *, size_bytes: int, seconds: float) -> None:
        """Count a load; where its time isn't known, give neither bytes nor seconds."""
        with self._lock:
            self._chunks += chunks
            self._bytes += size_bytes
            self._seconds += seconds

    def evicted(self, tier: str, chunks: int) -> None:
        with self._lock:
            self._evictions[tier] = self._evictions.get(tier, 0) + chunks

    def loads(self) -> Mapping[str, object]:
        with self._lock:
            return {"chunks": self._chunks, "bytes": self._bytes, "seconds": self._seconds}

    def evictions(self) -> Mapping[str, int]:
        with self._lock:
            return dict(self._evictions)
