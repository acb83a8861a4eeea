"""The prefix index: which prefix of a prompt was left where, and is where, as far as is known.

It learns from what the gateway sent and from the engines' KV events. `docs/prefix-index.md` says
what it knows and what it can't.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from math import inf
from typing import TypeAlias

from cache.flame import FlameNode
from cache.kv_events import BlockRemoved, BlockStored
from cache.page_keys import KEY_BYTES, PageKeyMaker, PageKeys
from cache.prefix_flame import Flame
from cache.prefix_holders import MAX_FLIGHTS, NOBODY, Holders, call_off, land, racing_pages
from cache.prefix_marks import Holder, Mark, Replica
from cache.prefix_match import Match, ReplicaMatch
from cache.prefix_runs import RunTree, Stretch
from cache.residency import Residency

# A mark with its share of a run takes as much memory as this many pages.
_PAGES_A_MARK = 8
_FEWEST_MARKS = 1024
# Measured with `bench.micro.prefix_index`: the objects of a run and of a mark.
_RUN_BYTES = 450
_MARK_BYTES = 376
# Prompts that are counted for the flame at once.
_SERVED_TOGETHER = 64
_GONE_SALTS = 10_000

_Labels: TypeAlias = Sequence[tuple[int, str]]
_Served: TypeAlias = tuple[PageKeys, str, int, int | None, Callable[[], _Labels]]


class PrefixIndex:
    """A radix tree of page runs, shared by all salts, with marks that say who left how much.

    Bounded: beyond `max_pages` pages, or a mark for every 8 of them, the least recently used ends
    of prefixes are forgotten. All times are of one clock. Pure, and not thread-safe: one event loop
    owns it.
    """

    def __init__(self, *, page_tokens: int, max_pages: int = 1_000_000, key: bytes = b"") -> None:
        """`key` is the secret of the page keys; without one a random one is made.

        Raises:
            ValueError: page_tokens < 1 or max_pages < 1.
        """
        if max_pages < 1:
            raise ValueError(f"max_pages is {max_pages}, but must be 1 or more")
        self.page_tokens = page_tokens
        self.max_pages = max_pages
        self._max_marks = max(_FEWEST_MARKS, max_pages // _PAGES_A_MARK)
        self._maker = PageKeyMaker(page_tokens=page_tokens, key=key)
        self._tree = RunTree()
        self._holders = Holders()
        # Tiers are kept like replicas; none of the real ones has this name.
        self._tiers = Replica("")
        self._own_tiers: dict[str, Replica] = {}
        self._flame = Flame(page_tokens=page_tokens)
        self._served: list[_Served] = []
        self._residency = Residency(self._tree, self._holders, self._maker)
        self._gone: dict[str, None] = {}  # the salts forgotten last, oldest first

    @property
    def pages(self) -> int:
        """Distinct pages known, however many salts and replicas have them."""
        return self._tree.pages

    @property
    def runs(self) -> int:
        """Stretches of pages after which prompts part or end."""
        return self._tree.runs

    @property
    def memory_bytes(self) -> int:
        """About what the index takes, from counts."""
        tree = self._tree
        return (
            KEY_BYTES * (tree.pages + tree.named_pages)
            + tree.names.memory_bytes
            + tree.runs * _RUN_BYTES
            + tree.recency.size * _MARK_BYTES
        )

    def keys(self, token_ids: Sequence[int] | bytes) -> PageKeys:
        """The chained keys of a prompt's whole pages.

        Fastest from `TokenizedPrompt.packed` (`bytes`: 32 bits an id) or an `array("I")`.

        Raises:
            ValueError: a token id doesn't fit 32 bits.
        """
        return self._maker.keys(token_ids)

    def extended(self, keys: PageKeys, token_ids: bytes) -> PageKeys:
        """The keys of a longer prompt, packed, that begins with the whole pages of `keys`."""
        return self._maker.extended(keys, token_ids)

    def match(self, keys: PageKeys, *, salt: str, sent_at: float) -> Match:
        """How much of a prompt is where. Changes nothing, not even the order of forgetting."""
        packed = keys.packed
        path = self._tree.path(packed)
        holders = self._holders.salts.get(salt, NOBODY)
        replicas: dict[str, ReplicaMatch] = {}
        left = racing = 0
        for name, replica in self._holders.replicas.items():
            holder = holders.get(replica)
            if holder is None:
                replicas[name] = replica.nothing()
                continue
            found = replicas[name] = _replica_match(packed, path, holder, sent_at)
            if found.left > left:
                left = found.left
            if found.racing > racing:
                racing = found.racing
        tiered = holders.get(self._tiers)
        return Match(
            left=left,
            racing=racing,
            replicas=replicas,
            tiered=0 if tiered is None else _left(path, tiered, sent_at),
            other_salts=self._left_by_others(path, salt, sent_at),
            own_tiers=self._given_to_own(path, holders, sent_at) if self._own_tiers else {},
        )

    def sent(self, keys: PageKeys, *, salt: str, replica: str, at: float) -> None:
        """A replica begins to compute a prompt: its pages are racing until it has."""
        flights = self._holders.on_replica(salt, replica).flights
        if len(flights) >= MAX_FLIGHTS:
            del flights[0]
        flights.append((at, keys))

    def computed(self, keys: PageKeys, *, salt: str, replica: str, at: float) -> None:
        """The KV of these pages was ready on a replica at a time."""
        holder = self._holders.on_replica(salt, replica)
        if holder.flights:
            land(holder, keys)
        self._cover(keys, holder, at, seen=True)
        tree = self._tree
        if tree.pages > self.max_pages or tree.recency.size > self._max_marks:
            self._bound()
        if not holder.marks:
            self._holders.sweep(holder)

    def gave_up(self, keys: PageKeys, *, salt: str, replica: str) -> None:
        """A request ended, and whether it computed its prompt isn't known."""
        if replica not in self._holders.replicas:  # forgotten meanwhile
            return
        holder = self._holders.on_replica(salt, replica)
        call_off(holder, keys)
        self._holders.sweep(holder)

    def tiered(self, keys: PageKeys, *, salt: str, at: float, tier: str = "") -> None:
        """These pages were given to tiers, as far as whole chunks of them go.

        `tier` is the replica whose own tiers those are; the shared ones have no name.
        """
        holder = self._holders.holder(salt, self._tier(tier))
        self._cover(keys, holder, at, seen=False)
        self._bound()
        self._holders.sweep(holder)

    def tiers_cleared(self, tier: str = "") -> None:
        """These tiers hold nothing any more, of any salt."""
        for holder in self._holders.on(self._tier(tier)):
            self._forget(holder)

    def stored(self, replica: str, event: BlockStored, *, at: float) -> None:
        """A replica put pages into its GPU's cache; `at` is when the gateway heard of it.

        Raises:
            PageSizeError: the engine's pages have another size than the index's.
        """
        self.all_stored(replica, (event,), at=at)

    def all_stored(self, replica: str, events: Iterable[BlockStored], *, at: float) -> None:
        """A replica put pages into its GPU's cache, one event after another.

        Raises:
            PageSizeError: the engine's pages have another size than the index's. Nothing that
                `events` has after that is taken.
        """
        state, tree = self._heard(replica), self._tree
        for event in events:
            if self._gone and (event.cache_salt or "") in self._gone:
                continue
            self._residency.stored(state, event, at=at)
            if tree.pages > self.max_pages or tree.recency.size > self._max_marks:
                self._bound()

    def removed(self, replica: str, event: BlockRemoved, *, at: float) -> None:
        """A replica dropped pages from its GPU's cache."""
        self._residency.removed(self._heard(replica), event, at=at)

    def cleared(self, replica: str, *, at: float) -> None:
        """A replica's cache is empty: it was flushed, or the engine was started anew."""
        state = self._heard(replica)
        state.epoch += 1
        state.cleared_at, state.complete = at, True

    def restarted(self, replica: str, *, at: float) -> None:
        """A replica that sends no events began anew: what it held is gone, and who knows more?"""
        state = self._holders.replica(replica)
        state.epoch += 1
        state.cleared_at = at

    def forget_replica(self, replica: str) -> None:
        """Forgets all that was left on a replica that is never used again, and in its own tiers."""
        if (tier := self._own_tiers.pop(replica, None)) is not None:
            for holder in self._holders.on(tier):
                self._forget(holder)
        state = self._holders.replicas.get(replica)
        if state is None:
            return
        for holder in self._holders.on(state):
            holder.flights.clear()
            self._forget(holder)
            self._holders.sweep(holder)
        del self._holders.replicas[replica]

    def evidence_lost(self, replica: str, *, at: float) -> None:
        """Events of a replica are missing for good: what is resident there isn't known now."""
        state = self._heard(replica)
        state.epoch += 1
        state.lost_at, state.complete = at, False

    def forget_salt(self, salt: str) -> None:
        """Forgets all that a salt left anywhere, as when its tenant is deleted.

        The salt is never used again; engines may still tell of pages that they stored before.
        """
        self._gone[salt] = None
        if len(self._gone) > _GONE_SALTS:
            del self._gone[next(iter(self._gone))]
        for holder in list(self._holders.salts.get(salt, NOBODY).values()):
            holder.flights.clear()
            self._forget(holder)
            self._holders.sweep(holder)
        self._count_served()
        self._flame.forget(salt)

    def served(
        self,
        keys: PageKeys,
        *,
        salt: str,
        prompt_tokens: int,
        cached_tokens: int | None,
        labels: Callable[[], _Labels],
    ) -> None:
        """A prompt was answered; counts it for the flame, together with others.

        `cached_tokens` is what the engine re-used, None where it didn't say. `labels` say what
        begins at which token, such as segments and documents; they are asked for later.
        """
        self._served.append((keys, salt, prompt_tokens, cached_tokens, labels))
        if len(self._served) >= _SERVED_TOGETHER:
            self._count_served()

    def flame(self, *, max_nodes: int = 500) -> FlameNode:
        """What was served since the start, by openings; the smallest pieces are put together."""
        self._count_served()
        return self._flame.export(max_nodes=max_nodes)

    def _count_served(self) -> None:
        """One after another: singly, between requests, each would take several times as long."""
        for keys, salt, prompt_tokens, cached_tokens, labels in self._served:
            self._flame.add(
                keys,
                salt=salt,
                prompt_tokens=prompt_tokens,
                cached_tokens=cached_tokens,
                labels=labels(),
            )
        self._served.clear()

    def _tier(self, name: str) -> Replica:
        if not name:
            return self._tiers
        found = self._own_tiers.get(name)
        if found is None:
            found = self._own_tiers[name] = Replica("")
        return found

    def _given_to_own(
        self, path: Sequence[Stretch], holders: Mapping[Replica, Holder], at: float
    ) -> dict[str, int]:
        given = {
            name: _left(path, holder, at)
            for name, tier in self._own_tiers.items()
            if (holder := holders.get(tier)) is not None
        }
        return {name: pages for name, pages in given.items() if pages}

    def _heard(self, replica: str) -> Replica:
        state = self._holders.replica(replica)
        state.heard = True
        return state

    def _cover(self, keys: PageKeys, holder: Holder, at: float, *, seen: bool) -> None:
        """Marks that a holder left these pages, and that a request had them, if it has `seen`."""
        tree = self._tree
        path = tree.grow(keys.packed[: self.max_pages * KEY_BYTES])
        for run, _, pages in path:
            mark = run.marks.get(holder) or tree.new_mark(run, holder)
            if not mark.left:
                mark.left, mark.left_at = pages, at
            elif pages > mark.left or at < mark.left_at:
                mark.add_left(pages, at)
            if not seen:
                continue
            if at >= mark.seen_at and pages >= mark.seen and not mark.seen_before:
                mark.seen, mark.seen_at = pages, at
            else:
                mark.add_seen(pages, at)
        if path:
            tree.recency.touch(path[-1][0], holder)

    def _bound(self) -> None:
        tree = self._tree
        while tree.pages > self.max_pages or tree.recency.size > self._max_marks:
            oldest = tree.recency.oldest
            assert oldest is not None, "pages without marks"
            self._drop(oldest)

    def _drop(self, mark: Mark) -> None:
        self._tree.forget(mark)
        self._holders.sweep(mark.holder)

    def _forget(self, holder: Holder) -> None:
        for mark in holder.held():
            self._drop(mark)

    def _left_by_others(self, path: Sequence[Stretch], salt: str, at: float) -> int:
        total = 0
        for run, _, pages in path:
            most = 0
            for holder, mark in run.marks.items():
                if holder.salt != salt and holder.replica.name:
                    left = mark.left if at >= mark.left_at else mark.left_by(at)
                    if left > most:
                        most = left
                        if most >= pages:
                            break
            total += min(most, pages)
            if most < len(run.keys) // KEY_BYTES:
                break
        return total


def _replica_match(
    packed: bytes, path: Sequence[Stretch], holder: Holder, sent_at: float
) -> ReplicaMatch:
    replica = holder.replica
    left = here = 0
    is_left, is_here, sure, removed = True, True, True, False
    for run, _, pages in path:
        mark = run.marks.get(holder)
        if mark is None:
            break
        there = len(run.keys) // KEY_BYTES
        if is_left:
            had = mark.left if sent_at >= mark.left_at else mark.left_by(sent_at)
            left += min(had, pages)
            is_left = had >= pages == there
        if is_here:
            # Pages that were left and that the replica has: a page that it never had there is not
            # in doubt; the first one in doubt ends them.
            within = min(mark.left, pages)
            wanted = (1 << within) - 1
            if mark.epoch == replica.epoch and mark.resident & wanted == wanted:
                found = within
            else:
                found = mark.here(within)
            here += found
            if found < within:
                sure, removed = mark.is_away(found), bool(mark.gone >> found & 1)
            is_here = found == there
        if not is_left and not is_here:
            break
    racing = left
    if holder.flights:
        racing = racing_pages(holder, packed, sent_at=sent_at, left=left)
    return ReplicaMatch(
        left=left,
        racing=racing,
        resident=here if sure and replica.heard else None,
        resident_at_least=here,
        last_cleared_at=replica.cleared_at,
        evidence_lost_at=replica.lost_at,
        removed=removed,
        last_removed_at=holder.removed_at if holder.removed_at > -inf else None,
    )


def _left(path: Sequence[Stretch], holder: Holder, at: float) -> int:
    """Leading pages that a holder had left at a time."""
    total = 0
    for run, _, pages in path:
        mark = run.marks.get(holder)
        if mark is None:
            break
        left = mark.left if at >= mark.left_at else mark.left_by(at)
        if left < pages:
            return total + left
        total += pages
        if pages < run.pages:
            break
    return total
