"""What other gateways told, put into this one's prefix index."""

from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass

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
from cache.page_keys import KEY_BYTES, PageKeys
from cache.prefix_index import PrefixIndex

_CHAIN_BYTES = 64 * 2**20


@dataclass(frozen=True, slots=True)
class _Known:
    salt: str
    keys: PageKeys


@dataclass(frozen=True, slots=True, kw_only=True)
class Here:
    """A replica as this gateway sees it.

    Attributes:
        needed: whether its holdings can't be followed here by its events.
    """

    name: str
    start: str
    needed: bool


class Inbox:
    """Applies batches. One event loop owns it.

    Attributes:
        applied: notes that taught something.
        missed: batches that were written and never read, those that a gateway dropped too.
        unplaced: notes of a chain that began before what Redis has kept.

    Args:
        here: the replicas by URL, as of now.
    """

    def __init__(self, index: PrefixIndex, here: Callable[[], Mapping[str, Here]]) -> None:
        self.applied = self.missed = self.unplaced = 0
        self._index = index
        self._here = here
        self._last: dict[str, int] = {}
        self._chains: OrderedDict[tuple[str, int], _Known] = OrderedDict()
        self._bytes = 0
        # Requests under way elsewhere: gateway → (chain, replica).
        self._flights: dict[str, set[tuple[int, str]]] = {}

    def take(self, batch: Batch, *, at: float, is_history: bool) -> None:
        """Apply one.

        Args:
            at: when it was written, by the index's clock.
            is_history: whether it was written before this gateway came.
        """
        last = self._last.get(batch.gateway)
        if last is not None:
            self.missed += max(0, batch.number - last - 1)
        self._last[batch.gateway] = batch.number
        here = self._here()
        replicas = [_same_start(here.get(told.url), told) for told in batch.replicas]
        for note in batch.notes:
            self._apply(note, batch, replicas, at, is_history=is_history)

    def only(self, gateways: frozenset[str]) -> None:
        """The gateways that there are: what others had under way isn't known any more."""
        for gateway in self._flights.keys() - gateways:
            for number, name in self._flights.pop(gateway):
                if (known := self._chains.get((gateway, number))) is not None:
                    self._index.gave_up(known.keys, salt=known.salt, replica=name)

    def _apply(
        self,
        note: Note,
        batch: Batch,
        replicas: list[Here | None],
        at: float,
        *,
        is_history: bool,
    ) -> None:
        match note:
            case Chain():
                self._learn(note, batch)
            case Forgot():
                self._index.forget_salt(batch.salts[note.salt])
            case Tiered():
                here = None if note.replica is None else replicas[note.replica]
                if note.replica is not None and here is None:
                    return
                if (known := self._chain(batch.gateway, note.number)) is not None:
                    age_s, tier = note.age_ms / 1000, here.name if here else ""
                    self._index.tiered(known.keys, salt=known.salt, at=at - age_s, tier=tier)
            case Restarted():
                # A gateway that is there sees it for itself, and in time.
                if is_history and (here := replicas[note.replica]) is not None:
                    self._index.restarted(here.name, at=at - note.age_ms / 1000)
            case Sent() | Computed() | GaveUp():
                here = replicas[note.replica]
                if here is None or not here.needed:
                    return
                if (known := self._chain(batch.gateway, note.number)) is not None:
                    self._request(note, batch.gateway, known, here.name, at)

    def _request(
        self, note: Sent | Computed | GaveUp, gateway: str, known: _Known, name: str, at: float
    ) -> None:
        flights = self._flights.setdefault(gateway, set())
        index, salt, keys = self._index, known.salt, known.keys
        match note:
            case Sent():
                flights.add((note.number, name))
                index.sent(keys, salt=salt, replica=name, at=at - note.age_ms / 1000)
            case Computed():
                flights.discard((note.number, name))
                index.computed(keys, salt=salt, replica=name, at=at - note.age_ms / 1000)
            case GaveUp():
                flights.discard((note.number, name))
                index.gave_up(keys, salt=salt, replica=name)
        self.applied += 1

    def _learn(self, note: Chain, batch: Batch) -> None:
        packed = note.tail
        if note.base:
            base = self._chain(batch.gateway, note.base)
            if base is None:
                return
            packed = base.keys.prefix(note.base_pages).packed + packed
        self._chains[batch.gateway, note.number] = _Known(batch.salts[note.salt], PageKeys(packed))
        self._bytes += len(packed)
        while self._bytes > _CHAIN_BYTES and len(self._chains) > 1:
            _, oldest = self._chains.popitem(last=False)
            self._bytes -= len(oldest.keys) * KEY_BYTES

    def _chain(self, gateway: str, number: int) -> _Known | None:
        known = self._chains.get((gateway, number))
        if known is None:
            self.unplaced += 1
        return known


def _same_start(here: Here | None, told: ToldReplica) -> Here | None:
    """None: it isn't known here, or is another process by now: what was left there is gone."""
    if here is None or (here.start and told.start and here.start != told.start):
        return None
    return here
