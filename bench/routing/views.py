"""What a gateway knows of the replicas' caches: by their KV events, or only by what it sent."""

from collections import deque
from collections.abc import Sequence
from random import Random
from typing import Protocol

from bench.routing.block_cache import BlockCache
from bench.routing.fleet import Served
from bench.routing.traces import Arrival


class View(Protocol):
    """One gateway's belief about every replica's cache."""

    def held(self, replica: int, path: Sequence[int], now_s: float) -> int:
        """Leading blocks that are believed to be there, or on their way."""
        ...

    def sent(self, replica: int, arrival: Arrival) -> None:
        """This gateway sent a request there."""
        ...

    def served(self, replica: int, arrival: Arrival, served: Served) -> None:
        """Any gateway's request was taken by a replica: its events will tell, if they arrive."""
        ...

    def restarted(self, replica: int) -> None:
        """A replica was seen to come back empty."""
        ...


class SentView:
    """Without events: an LRU of what was sent, as large as the caches are believed to be."""

    def __init__(self, num_replicas: int, *, believed_capacity: float) -> None:
        self._caches = [BlockCache(believed_capacity) for _ in range(num_replicas)]

    def held(self, replica: int, path: Sequence[int], now_s: float) -> int:
        return self._caches[replica].held(path)

    def sent(self, replica: int, arrival: Arrival) -> None:
        self._caches[replica].use(arrival.blocks)

    def served(self, replica: int, arrival: Arrival, served: Served) -> None:
        """No events."""

    def restarted(self, replica: int) -> None:
        self._caches[replica].clear()


class NotesView(SentView):
    """Without events, but with other gateways' notes, a moment later."""

    def __init__(
        self,
        num_replicas: int,
        *,
        believed_capacity: float,
        lag_s: float = 0.1,
        away_s: tuple[float, float] = (0.0, 0.0),
    ) -> None:
        """`away_s`: from when to when Redis is away; what is sent then no other gateway hears."""
        super().__init__(num_replicas, believed_capacity=believed_capacity)
        self._coming: deque[tuple[float, int, Arrival]] = deque()
        self._lag_s = lag_s
        self._away_s = away_s

    def held(self, replica: int, path: Sequence[int], now_s: float) -> int:
        while self._coming and self._coming[0][0] <= now_s:
            _, number, arrival = self._coming.popleft()
            self._caches[number].use(arrival.blocks)
        return super().held(replica, path, now_s)

    def served(self, replica: int, arrival: Arrival, served: Served) -> None:
        """Its own too: they are no news."""
        if not self._away_s[0] <= arrival.at_s < self._away_s[1]:
            self._coming.append((arrival.at_s + self._lag_s, replica, arrival))


class EventView:
    """With events: what was sent at once, what others sent and what was evicted some time later."""

    def __init__(self, num_replicas: int, *, lag_s: float = 0.05, lost: float = 0.0) -> None:
        """`lost`: share of a replica's batches of events that never arrive and aren't missed."""
        self._caches = [BlockCache(float("inf")) for _ in range(num_replicas)]
        self._coming: list[deque[tuple[float, Sequence[int], Sequence[int]]]] = [
            deque() for _ in range(num_replicas)
        ]
        self._lag_s = lag_s
        self._lost = lost
        self._random = Random(1)

    def held(self, replica: int, path: Sequence[int], now_s: float) -> int:
        coming, cache = self._coming[replica], self._caches[replica]
        while coming and coming[0][0] <= now_s:
            _, stored, gone = coming.popleft()
            cache.use(stored)
            cache.forget(gone)
        return cache.held(path)

    def sent(self, replica: int, arrival: Arrival) -> None:
        self._caches[replica].use(arrival.blocks)

    def served(self, replica: int, arrival: Arrival, served: Served) -> None:
        if self._lost and self._random.random() < self._lost:
            return
        at_s = served.first_token_at_s + self._lag_s
        self._coming[replica].append((at_s, arrival.blocks, served.gone))

    def restarted(self, replica: int) -> None:
        self._caches[replica].clear()
        self._coming[replica].clear()
