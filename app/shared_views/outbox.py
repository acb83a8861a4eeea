"""What this gateway has to tell: noted on the request's path, packed later beside it."""

import time
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal
from uuid import uuid4

from app.shared_views.wire import (
    Batch,
    Chain,
    Computed,
    Forgot,
    GaveUp,
    Note,
    Restarted,
    Sent,
    Tiered,
    ToldReplica,
)
from cache.accounting_values import PrefixIndex
from cache.page_keys import KEY_BYTES, PageKeys

_MOST_WAITING = 20_000
# Redis keeps batches for longer: a gateway that joins later finds each chain whole.
_CHAIN_S = 30.0
_MOST_CHAINS = 20_000
# A batch is cut beyond this: Redis and its readers then have nothing large to move at once.
_BATCH_BYTES = 256 * 1024
# An answer's pages beyond its prompt's: so far back the chain that it continues is looked for.
_MOST_ANSWER_PAGES = 256

Event = Literal["sent", "computed", "gave up", "tiered", "forgot", "restarted"]


@dataclass(frozen=True, slots=True)
class _Waiting:
    event: Event
    at: float
    replica: str
    salt: str
    keys: PageKeys


@dataclass(slots=True)
class _Told:
    number: int
    at: float
    salt: str


class Outbox:
    """Waiting notes, bounded; what doesn't fit is dropped and counted in `untold`.

    Attributes:
        gateway: names this one among the others.
        clock: the one of the index.
        needed: names of the replicas whose requests some gateway can't see by events.
    """

    def __init__(
        self, gateway: str | None = None, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.needed: frozenset[str] = frozenset()
        self.untold = 0
        self.gateway = gateway or uuid4().hex[:16]
        self.clock = clock
        self._waiting: deque[_Waiting] = deque()
        # By the key of their last page.
        self._chains: OrderedDict[int, _Told] = OrderedDict()
        self._last_chain = self._last_batch = 0

    def telling(self, index: PrefixIndex) -> PrefixIndex:
        """The index, which tells here what it learns from this gateway's requests."""
        self.forget()
        return _TellingIndex(index, self)

    def note(self, event: Event, at: float, replica: str, salt: str, keys: PageKeys) -> None:
        """On the request's path: nothing is looked at."""
        if len(self._waiting) >= _MOST_WAITING:
            self._waiting.popleft()
            self.untold += 1
        self._waiting.append(_Waiting(event, at, replica, salt, keys))

    def restarted(self, replica: str) -> None:
        """A replica without events was met anew."""
        self.note("restarted", self.clock(), replica, "", PageKeys())

    def forgot(self, salt: str) -> None:
        """A salt is never used again."""
        self.note("forgot", self.clock(), "", salt, PageKeys())

    def forget(self) -> None:
        """Nobody is to be told what waits: it is of other books, or Redis is away."""
        self.untold += len(self._waiting)
        # Whoever misses a batch sees it by the number.
        self._last_batch += bool(self._waiting)
        self._waiting.clear()
        self._chains.clear()

    def pack(self, replicas: Mapping[str, ToldReplica]) -> Iterator[Batch]:
        """All that waits, in batches; `replicas` by the names that they have here."""
        while self._waiting:
            packing = _Packing(self, replicas)
            while self._waiting and packing.bytes < _BATCH_BYTES:
                packing.add(self._waiting.popleft())
            if packing.notes:
                self._last_batch += 1
                yield Batch(
                    self.gateway,
                    self._last_batch,
                    packing.replicas,
                    list(packing.salts),
                    packing.notes,
                )

    def chain(self, salt: str, keys: PageKeys) -> tuple[int, tuple[int, int, bytes] | None]:
        """The number of a chain of keys, and (base, base pages, tail) where it is to be told.

        It is as old as its base: without that it means nothing to those who come later.
        """
        now, all_pages = self.clock(), len(keys)
        self._drop_old(now)
        base, pages, at = 0, 0, now
        latest = memoryview(keys.packed).cast("Q")[::-1][:_MOST_ANSWER_PAGES]
        for fewer, key in enumerate(latest):
            told = self._chains.get(key)
            if told is not None and told.salt == salt and told.at >= now - _CHAIN_S:
                base, pages, at = told.number, all_pages - fewer, told.at
                break
        if pages == all_pages:
            return base, None
        self._last_chain += 1
        self._chains[latest[0]] = _Told(self._last_chain, at, salt)
        self._chains.move_to_end(latest[0])
        return self._last_chain, (base, pages, keys.packed[pages * KEY_BYTES :])

    def _drop_old(self, now: float) -> None:
        chains = self._chains
        while chains and (
            len(chains) > _MOST_CHAINS or next(iter(chains.values())).at < now - _CHAIN_S
        ):
            chains.popitem(last=False)


class _Packing:
    """One batch in the making."""

    def __init__(self, outbox: Outbox, replicas: Mapping[str, ToldReplica]) -> None:
        self.notes: list[Note] = []
        self.replicas: list[ToldReplica] = []
        self.salts: dict[str, int] = {}
        self.bytes = 0
        self._outbox = outbox
        self._known = replicas
        self._places: dict[str, int] = {}
        self._now = outbox.clock()

    def add(self, waiting: _Waiting) -> None:
        age_ms = max(0, int((self._now - waiting.at) * 1000))
        match waiting.event:
            case "forgot":
                self.notes.append(Forgot(self._salt(waiting.salt)))
            case "tiered":
                self._add_tiered(waiting, age_ms)
            case _:
                place = self._replica(waiting.replica)
                if place is not None:
                    self.notes.append(self._of_replica(waiting, age_ms, place))
        self.bytes += 24

    def _add_tiered(self, waiting: _Waiting, age_ms: int) -> None:
        place = self._replica(waiting.replica) if waiting.replica else None
        if place is not None or not waiting.replica:
            self.notes.append(Tiered(age_ms, self._chain(waiting), place))

    def _of_replica(self, waiting: _Waiting, age_ms: int, place: int) -> Note:
        match waiting.event:
            case "sent":
                return Sent(age_ms, self._chain(waiting), place)
            case "computed":
                return Computed(age_ms, self._chain(waiting), place)
            case "gave up":
                return GaveUp(self._chain(waiting), place)
        return Restarted(age_ms, place)

    def _chain(self, waiting: _Waiting) -> int:
        number, told = self._outbox.chain(waiting.salt, waiting.keys)
        if told is not None:
            self.notes.append(Chain(number, self._salt(waiting.salt), *told))
            self.bytes += len(told[2])
        return number

    def _salt(self, salt: str) -> int:
        return self.salts.setdefault(salt, len(self.salts))

    def _replica(self, name: str) -> int | None:
        """None: it is gone, and nobody asks what it had."""
        place = self._places.get(name)
        if place is None and (known := self._known.get(name)) is not None:
            place = self._places[name] = len(self.replicas)
            self.replicas.append(known)
        return place


class _TellingIndex:
    """A prefix index whose owner tells others."""

    def __init__(self, index: PrefixIndex, outbox: Outbox) -> None:
        self._index = index
        self._outbox = outbox
        self.keys = index.keys
        self.extended = index.extended
        self.match = index.match
        self.served = index.served

    def sent(self, keys: PageKeys, *, salt: str, replica: str, at: float) -> None:
        self._index.sent(keys, salt=salt, replica=replica, at=at)
        if replica in self._outbox.needed and keys.packed:
            self._outbox.note("sent", at, replica, salt, keys)

    def computed(self, keys: PageKeys, *, salt: str, replica: str, at: float) -> None:
        self._index.computed(keys, salt=salt, replica=replica, at=at)
        if replica in self._outbox.needed and keys.packed:
            self._outbox.note("computed", at, replica, salt, keys)

    def gave_up(self, keys: PageKeys, *, salt: str, replica: str) -> None:
        self._index.gave_up(keys, salt=salt, replica=replica)
        if replica in self._outbox.needed and keys.packed:
            self._outbox.note("gave up", 0.0, replica, salt, keys)

    def tiered(self, keys: PageKeys, *, salt: str, at: float, tier: str = "") -> None:
        # No engine's events tell what the tiers hold.
        self._index.tiered(keys, salt=salt, at=at, tier=tier)
        if keys.packed:
            self._outbox.note("tiered", at, tier, salt, keys)
