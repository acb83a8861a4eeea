"""Which texts are embedded next: queries first, passages in micro-batches of like length. Pure.

A text costs as much as the longest of its batch, so passages of all requests are put together and
sorted by length, some hundred at a time: whoever came first is done first, whatever comes after.
"""

import threading
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from retrieval.embed import Vectors
from retrieval.errors import EmbedderError

# Larger batches are no faster on a CPU, and a query waits for the batch being computed.
MAX_TEXTS = 32
_ROUND_TEXTS = 256


@dataclass(slots=True, eq=False)
class EmbedRequest:
    """Texts that somebody waits for, and the vectors that are there already."""

    texts: Sequence[str]
    is_query: bool
    done: threading.Event = field(default_factory=threading.Event)
    error: EmbedderError | None = None
    rows: list[Vectors | None] = field(init=False)
    left: int = field(init=False)

    def __post_init__(self) -> None:
        self.rows = [None] * len(self.texts)
        self.left = len(self.texts)

    def put(self, index: int, vector: Vectors) -> None:
        """Takes a text's vector (d,)."""
        if self.rows[index] is None:
            self.rows[index] = vector
            self.left -= 1
        if not self.left:
            self.done.set()

    def fail(self, error: EmbedderError) -> None:
        """Ends the request; what was computed for it is dropped."""
        self.error = self.error or error
        self.done.set()

    def vectors(self) -> Vectors:
        """(n, d), in the texts' order. Raises EmbedderError: it failed."""
        if self.error is not None:
            raise self.error
        return np.stack([row for row in self.rows if row is not None])


@dataclass(frozen=True, slots=True, eq=False)
class Item:
    """One text of a request.

    Attributes:
        failures: batches with it that failed.
    """

    request: EmbedRequest
    index: int
    failures: int = 0

    @property
    def text(self) -> str:
        return self.request.texts[self.index]

    @property
    def is_query(self) -> bool:
        return self.request.is_query


class MicroBatcher:
    """Orders what waits. Not for several threads: its owner locks."""

    def __init__(self) -> None:
        self._queries: deque[Item] = deque()
        self._passages: deque[Item] = deque()
        self._round: deque[Item] = deque()
        self._alone: deque[Item] = deque()

    def __len__(self) -> int:
        """Texts that wait."""
        waiting = (self._queries, self._passages, self._round, self._alone)
        return sum(len(items) for items in waiting)

    @property
    def queries(self) -> int:
        """Queries that wait."""
        return len(self._queries)

    def add(self, request: EmbedRequest) -> None:
        """Takes all texts of a request."""
        items = (Item(request, index) for index in range(len(request.texts)))
        (self._queries if request.is_query else self._passages).extend(items)

    def put_back(self, batch: Sequence[Item]) -> None:
        """Takes back texts of a batch that failed; each of them comes again alone."""
        self._alone.extend(replace(item, failures=item.failures + 1) for item in batch)

    def next_batch(self, max_chars: int) -> list[Item]:
        """The next texts, all queries or all passages; empty when none waits.

        Args:
            max_chars: about how much to compute before queries are looked at again, padding
                counted; one text at least.
        """
        self._drop_ended()
        if self._queries:
            return self._taken(self._queries, MAX_TEXTS)
        if self._alone:
            return self._taken(self._alone, 1)
        if not self._round:
            items = self._taken(self._passages, _ROUND_TEXTS)
            self._round.extend(sorted(items, key=lambda item: -len(item.text)))
        if not self._round:
            return []
        longest = max(1, len(self._round[0].text))
        return self._taken(self._round, max(1, min(MAX_TEXTS, max_chars // longest)))

    def drain(self) -> list[EmbedRequest]:
        """Takes everything out; the requests that waited."""
        waiting = (*self._queries, *self._alone, *self._round, *self._passages)
        for items in (self._queries, self._alone, self._round, self._passages):
            items.clear()
        return list(dict.fromkeys(item.request for item in waiting))

    def _drop_ended(self) -> None:
        """Nobody waits for the rest of a request that failed or was given up."""
        for items in (self._queries, self._alone, self._round, self._passages):
            while items and items[0].request.done.is_set():
                items.popleft()

    def _taken(self, items: deque[Item], most: int) -> list[Item]:
        taken: list[Item] = []
        while items and len(taken) < most:
            item = items.popleft()
            if not item.request.done.is_set():
                taken.append(item)
        return taken
