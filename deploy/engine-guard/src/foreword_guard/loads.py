"""Which tier served each chunk of each request's load. Pure, bounded, thread-safe.

LMCache knows it in two places that never meet: the look-up (`found`: chunk 0 to 11 are here or
there) and the load (`loaded`: the engine took chunks 4 to 11, it held the ones before itself).
Both carry SGLang's request id.
"""

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import groupby

RAM = "ram"


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """Tokens [start, stop) that came from one tier."""

    tier: str
    start: int
    stop: int


@dataclass(slots=True)
class _Record:
    sources: Sequence[str]
    span: tuple[int, int] | None = field(default=None)
    over: bool = field(default=False)


class LoadRecords:
    """What the newest requests loaded, by request id.

    Args:
        limit: requests that are remembered; beyond it the oldest are forgotten.
    """

    def __init__(self, limit: int = 10_000) -> None:
        self._limit = limit
        self._lock = threading.Lock()
        self._records: dict[str, _Record] = {}

    def found(self, request_id: str, sources: Sequence[str]) -> None:
        """A look-up is over: where each chunk of its hit is, from the prompt's start.

        A request that the engine interrupts and takes up again looks up twice; what it loaded the
        first time is what its answer reports.
        """
        with self._lock:
            known = self._records.pop(request_id, None)
            keep = known is not None and known.span is not None and not known.over
            self._records[request_id] = known if known and keep else _Record(tuple(sources))
            while len(self._records) > self._limit:
                del self._records[next(iter(self._records))]

    def loaded(self, request_id: str, start_chunk: int, stop_chunk: int) -> None:
        """Chunks [start, stop) reached the engine."""
        with self._lock:
            record = self._records.get(request_id)
            if record is not None and record.span is None:
                record.span = (start_chunk, stop_chunk)

    def ended(self, request_id: str) -> None:
        """The request is over; the same id would be another request."""
        with self._lock:
            record = self._records.get(request_id)
            if record is not None:
                record.over = True

    def runs(self, request_id: str, *, chunk_tokens: int, held_tokens: int = 0) -> list[Run] | None:
        """What a request loaded, in order; None where nothing is known for sure.

        Args:
            held_tokens: tokens from the prompt's start that don't count, since the engine held
                them itself.
        """
        with self._lock:
            record = self._records.get(request_id)
            if record is None or record.span is None:
                return None
            start, stop = record.span
            sources = record.sources[start:stop]
        if len(sources) != stop - start:
            return None
        return _runs(sources, start * chunk_tokens, chunk_tokens, held_tokens)


def _runs(sources: Sequence[str], start: int, chunk_tokens: int, held_tokens: int) -> list[Run]:
    runs: list[Run] = []
    at = start
    for tier, chunks in groupby(sources):
        stop = at + len(list(chunks)) * chunk_tokens
        if stop > held_tokens:
            runs.append(Run(tier=tier, start=max(at, held_tokens), stop=stop))
        at = stop
    return runs
