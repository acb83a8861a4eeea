"""The prefix index in obvious lines: the oracle of its tests, and a stand-in for it in others.

One dictionary entry for every page and fact. It forgets nothing and is too large for a gateway.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from math import inf

from cache.errors import PageSizeError
from cache.flame import FlameNode
from cache.kv_events import GPU, BlockRemoved, BlockStored
from cache.page_keys import PageKeyMaker, PageKeys
from cache.prefix_match import Match, ReplicaMatch


@dataclass(slots=True)
class _Held:
    """What one salt has on one replica, by page key."""

    left: dict[bytes, float] = field(default_factory=dict)  # when it first was ready
    seen: dict[bytes, float] = field(default_factory=dict)  # when a request last had it
    resident: set[bytes] = field(default_factory=set)
    gone: set[bytes] = field(default_factory=set)
    named: set[bytes] = field(default_factory=set)
    removed_at: float = -inf
    flights: list[tuple[float, PageKeys]] = field(default_factory=list)


@dataclass(slots=True)
class _Replica:
    """What is known of one replica's events."""

    heard: bool = False
    complete: bool = True
    cleared_at: float | None = None
    lost_at: float | None = None
    unnamed_removed_at: float = -inf
    # Engine's hash → salt, page key, page's place in its prompt.
    names: dict[int, tuple[str, bytes, int]] = field(default_factory=dict)


class NaiveIndex:
    """The contract of `PrefixIndex`, unbounded."""

    def __init__(self, *, page_tokens: int, key: bytes = b"") -> None:
        self.page_tokens = page_tokens
        self._maker = PageKeyMaker(page_tokens=page_tokens, key=key)
        self._held: dict[tuple[str, str], _Held] = {}
        self._replicas: dict[str, _Replica] = {}
        self._tiered: dict[tuple[str, str], dict[bytes, float]] = {}
        self._gone: set[str] = set()

    @property
    def pages(self) -> int:
        held = [held.left for held in self._held.values()]
        return len({key for left in [*held, *self._tiered.values()] for key in left})

    def keys(self, token_ids: Sequence[int] | bytes) -> PageKeys:
        return self._maker.keys(token_ids)

    def extended(self, keys: PageKeys, token_ids: bytes) -> PageKeys:
        return self.keys(token_ids)

    def match(self, keys: PageKeys, *, salt: str, sent_at: float) -> Match:
        pages = _each(keys)
        replicas = {
            name: self._replica_match(pages, salt, name, sent_at) for name in self._replicas
        }
        others = (held for (its_salt, _), held in self._held.items() if its_salt != salt)
        return Match(
            left=max((found.left for found in replicas.values()), default=0),
            racing=max((found.racing for found in replicas.values()), default=0),
            replicas=replicas,
            tiered=_ready(pages, self._tiered.get((salt, ""), {}), sent_at),
            other_salts=max((_ready(pages, held.left, sent_at) for held in others), default=0),
            own_tiers={
                tier: found
                for (whose, tier), given in self._tiered.items()
                if whose == salt and tier and (found := _ready(pages, given, sent_at))
            },
        )

    def sent(self, keys: PageKeys, *, salt: str, replica: str, at: float) -> None:
        self._hold(salt, replica).flights.append((at, keys))

    def computed(self, keys: PageKeys, *, salt: str, replica: str, at: float) -> None:
        held = self._hold(salt, replica)
        for key in _each(keys):
            held.left[key] = min(held.left.get(key, inf), at)
            held.seen[key] = max(held.seen.get(key, -inf), at)
        held.flights = [(at, f) for at, f in held.flights if keys.prefix(len(f)) != f]

    def gave_up(self, keys: PageKeys, *, salt: str, replica: str) -> None:
        if replica not in self._replicas:
            return
        flights = self._hold(salt, replica).flights
        same = [flight for flight in flights if flight[1] == keys]
        if same:
            flights.remove(max(same, key=lambda flight: flight[0]))

    def served(
        self,
        keys: PageKeys,
        *,
        salt: str,
        prompt_tokens: int,
        cached_tokens: int | None,
        labels: Callable[[], Sequence[tuple[int, str]]],
    ) -> None:
        """The naive index keeps no flame."""

    def tiered(self, keys: PageKeys, *, salt: str, at: float, tier: str = "") -> None:
        given = self._tiered.setdefault((salt, tier), {})
        for key in _each(keys):
            given[key] = min(given.get(key, inf), at)

    def tiers_cleared(self, tier: str = "") -> None:
        for key in [key for key in self._tiered if key[1] == tier]:
            del self._tiered[key]

    def stored(self, replica: str, event: BlockStored, *, at: float) -> None:
        state = self._heard(replica)
        if event.medium not in (None, GPU) or event.lora_id is not None or event.lora_name:
            return
        if event.block_size != self.page_tokens:
            raise PageSizeError(ours=self.page_tokens, theirs=event.block_size)
        salt = event.cache_salt or ""
        if salt in self._gone:
            return
        parent, place = b"", 0
        if event.parent_block_hash is not None:
            named = state.names.get(event.parent_block_hash)
            if named is None or named[0] != salt:
                return
            _, parent, place = named
        held = self._hold(salt, replica)
        pages = _each(PageKeys(self._maker.after(parent, place, event.token_ids)))
        for number, (key, name) in enumerate(
            zip(pages, event.block_hashes, strict=True), place + 1
        ):
            state.names[name] = (salt, key, number)
            held.left[key] = min(held.left.get(key, inf), at)
            held.named.add(key)
            held.resident.add(key)
            held.gone.discard(key)

    def removed(self, replica: str, event: BlockRemoved, *, at: float) -> None:
        state = self._heard(replica)
        if event.medium not in (None, GPU):
            return
        for name in event.block_hashes:
            if name not in state.names:
                state.unnamed_removed_at = at
                continue
            salt, key, _ = state.names[name]
            held = self._held[salt, replica]
            held.resident.discard(key)
            held.gone.add(key)
            held.removed_at = at

    def cleared(self, replica: str, *, at: float) -> None:
        state = self._heard(replica)
        state.cleared_at, state.complete = at, True
        self._void(replica)

    def evidence_lost(self, replica: str, *, at: float) -> None:
        state = self._heard(replica)
        state.lost_at, state.complete = at, False
        self._void(replica)

    def restarted(self, replica: str, *, at: float) -> None:
        state = self._replicas.setdefault(replica, _Replica())
        state.cleared_at = at
        self._void(replica)

    def forget_replica(self, replica: str) -> None:
        self._replicas.pop(replica, None)
        self.tiers_cleared(replica)
        for key in [key for key in self._held if key[1] == replica]:
            del self._held[key]

    def forget_salt(self, salt: str) -> None:
        self._gone.add(salt)
        for key in [key for key in self._tiered if key[0] == salt]:
            del self._tiered[key]
        for key in [key for key in self._held if key[0] == salt]:
            del self._held[key]
        for state in self._replicas.values():
            state.names = {name: to for name, to in state.names.items() if to[0] != salt}

    def flame(self, *, max_nodes: int = 500) -> FlameNode:
        return FlameNode(label="", tokens=0, requests=0, served_tokens=0, cached_tokens=None)

    def _heard(self, replica: str) -> _Replica:
        state = self._replicas.setdefault(replica, _Replica())
        state.heard = True
        return state

    def _hold(self, salt: str, replica: str) -> _Held:
        self._replicas.setdefault(replica, _Replica())
        return self._held.setdefault((salt, replica), _Held())

    def _void(self, replica: str) -> None:
        for (_, name), held in self._held.items():
            if name == replica:
                held.resident.clear()
                held.gone.clear()

    def _replica_match(
        self, pages: Sequence[bytes], salt: str, replica: str, sent_at: float
    ) -> ReplicaMatch:
        state, held = self._replicas[replica], self._held.get((salt, replica), _Held())
        left = _ready(pages, held.left, sent_at)
        flying = [_shared(pages, keys) for at, keys in held.flights if at <= sent_at]
        here = _count(_is_here(key, held, state) for key in pages)
        sure = state.heard and (
            here >= _ready(pages, held.left, inf) or _is_away(pages[here], held, state)
        )
        return ReplicaMatch(
            left=left,
            racing=max([left, *flying]),
            resident=here if sure else None,
            resident_at_least=here,
            last_cleared_at=state.cleared_at,
            evidence_lost_at=state.lost_at,
            removed=here < len(pages) and pages[here] in held.gone,
            last_removed_at=held.removed_at if held.removed_at > -inf else None,
        )


def _is_here(key: bytes, held: _Held, state: _Replica) -> bool:
    """Whether a page is in the replica's GPU: an event said so, or a request had it since."""
    if key in held.resident:
        return True
    seen = held.seen.get(key, -inf)
    if seen <= max(_time(state.lost_at), _time(state.cleared_at)):
        return False
    if key in held.gone:
        return seen > held.removed_at
    return key in held.named or seen > state.unnamed_removed_at


def _is_away(key: bytes, held: _Held, state: _Replica) -> bool:
    """Whether a page that isn't known to be there is known not to be."""
    if key in held.gone:
        return True
    seen = held.seen.get(key, -inf)
    doubtful = _time(state.cleared_at) < seen <= state.unnamed_removed_at
    return state.complete and not (doubtful and key not in held.named)


def _each(keys: PageKeys) -> list[bytes]:
    return [keys.key(page) for page in range(len(keys))]


def _ready(pages: Sequence[bytes], ready: dict[bytes, float], at: float) -> int:
    return _count(ready.get(key, inf) <= at if at < inf else key in ready for key in pages)


def _shared(pages: Sequence[bytes], keys: PageKeys) -> int:
    return _count(one == other for one, other in zip(pages, _each(keys), strict=False))


def _count(tests: Iterable[bool]) -> int:
    """How many are true before the first that is not."""
    number = 0
    for test in tests:
        if not test:
            break
        number += 1
    return number


def _time(at: float | None) -> float:
    return -inf if at is None else at
