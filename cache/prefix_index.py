"""The prefix index: which prefix of a prompt was left where, and is where, as far as is known.

It learns from what the gateway sent and from the engines' KV events. `docs/prefix-index.md` says
what it knows and what it can't.
"""

from collections.abc import Sequence
from math import inf

from cache.flame import FlameNode
from cache.kv_events import BlockRemoved, BlockStored
from cache.page_keys import KEY_BYTES, PageKeyMaker, PageKeys
from cache.prefix_flame import Flame
from cache.prefix_holders import Holders, call_off, land, racing_pages, take_off
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
        # The shared tiers are kept like a replica; none of the real ones has this name.
        self._tiers = Replica("")
        self._flame = Flame(page_tokens=page_tokens)
        self._residency = Residency(self._tree, self._holders, self._maker)

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

    def match(self, keys: PageKeys, *, salt: str, sent_at: float) -> Match:
        """How much of a prompt is where. Changes nothing, not even the order of forgetting."""
        path = self._tree.path(keys.packed)
        holders = self._holders.of_salt(salt)
        replicas: dict[str, ReplicaMatch] = {}
        left = racing = 0
        for name, replica in self._holders.replicas.items():
            holder = holders.get(replica)
            if holder is None:
                replicas[name] = replica.nothing()
                continue
            found = _replica_match(keys.packed, path, holder, sent_at)
            left, racing = max(left, found.left), max(racing, found.racing)
            replicas[name] = found
        return Match(
            left=left,
            racing=racing,
            replicas=replicas,
            tiered=_left(path, holders.get(self._tiers), sent_at),
            other_salts=self._left_by_others(path, salt, sent_at),
        )

    def sent(self, keys: PageKeys, *, salt: str, replica: str, at: float) -> None:
        """A replica begins to compute a prompt: its pages are racing until it has."""
        take_off(self._holders.holder(salt, self._holders.replica(replica)), keys, at)

    def computed(self, keys: PageKeys, *, salt: str, replica: str, at: float) -> None:
        """The KV of these pages was ready on a replica at a time."""
        holder = self._holders.holder(salt, self._holders.replica(replica))
        land(holder, keys)
        for mark, pages in self._cover(keys, holder, at):
            mark.add_seen(pages, at)
        self._bound()
        self._holders.sweep(holder)

    def gave_up(self, keys: PageKeys, *, salt: str, replica: str) -> None:
        """A request ended, and whether it computed its prompt isn't known."""
        holder = self._holders.holder(salt, self._holders.replica(replica))
        call_off(holder, keys)
        self._holders.sweep(holder)

    def tiered(self, keys: PageKeys, *, salt: str, at: float) -> None:
        """These pages were given to the shared tiers, as far as whole chunks of them go."""
        holder = self._holders.holder(salt, self._tiers)
        self._cover(keys, holder, at)
        self._bound()
        self._holders.sweep(holder)

    def tiers_cleared(self) -> None:
        """The tiers hold nothing any more, of any salt."""
        for holder in self._holders.on(self._tiers):
            self._forget(holder)

    def stored(self, replica: str, event: BlockStored, *, at: float) -> None:
        """A replica put pages into its GPU's cache; `at` is when the gateway heard of it.

        Raises:
            PageSizeError: the engine's pages have another size than the index's.
        """
        self._residency.stored(self._heard(replica), event, at=at)
        self._bound()

    def removed(self, replica: str, event: BlockRemoved, *, at: float) -> None:
        """A replica dropped pages from its GPU's cache."""
        self._residency.removed(self._heard(replica), event, at=at)

    def cleared(self, replica: str, *, at: float) -> None:
        """A replica's cache is empty: it was flushed, or the engine was started anew."""
        state = self._heard(replica)
        state.epoch += 1
        state.cleared_at, state.complete = at, True

    def evidence_lost(self, replica: str, *, at: float) -> None:
        """Events of a replica are missing for good: what is resident there isn't known now."""
        state = self._heard(replica)
        state.epoch += 1
        state.lost_at, state.complete = at, False

    def forget_salt(self, salt: str) -> None:
        """Forgets all that a salt left anywhere, as when its tenant is deleted."""
        for holder in list(self._holders.of_salt(salt).values()):
            holder.flights.clear()
            self._forget(holder)
            self._holders.sweep(holder)
        self._flame.forget(salt)

    def served(
        self,
        keys: PageKeys,
        *,
        salt: str,
        prompt_tokens: int,
        cached_tokens: int | None,
        labels: Sequence[tuple[int, str]],
    ) -> None:
        """A prompt was answered; counts it for the flame.

        `cached_tokens` is what the engine re-used, None where it didn't say. `labels` say what
        begins at which token, such as segments and documents.
        """
        self._flame.add(
            keys,
            salt=salt,
            prompt_tokens=prompt_tokens,
            cached_tokens=cached_tokens,
            labels=labels,
        )

    def flame(self, *, max_nodes: int = 500) -> FlameNode:
        """What was served since the start, by openings; the smallest pieces are put together."""
        return self._flame.export(max_nodes=max_nodes)

    def _heard(self, replica: str) -> Replica:
        state = self._holders.replica(replica)
        state.heard = True
        return state

    def _cover(self, keys: PageKeys, holder: Holder, at: float) -> list[tuple[Mark, int]]:
        """Marks that a holder left these pages; returns each mark with its pages."""
        path = self._tree.grow(keys.prefix(self.max_pages).packed)
        marks = [(self._tree.mark(run, holder), pages) for run, _, pages in path]
        for mark, pages in marks:
            mark.add_left(pages, at)
        if path:
            self._tree.touch(path[-1][0], holder)
        return marks

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
                if holder.salt != salt and holder.replica is not self._tiers:
                    most = max(most, mark.left_by(at))
                    if most >= pages:
                        break
            total += min(most, pages)
            if most < run.pages:
                break
        return total


def _replica_match(
    packed: bytes, path: Sequence[Stretch], holder: Holder, sent_at: float
) -> ReplicaMatch:
    replica, left = holder.replica, _left(path, holder, sent_at)
    here, sure, removed = _resident(path, holder) if replica.heard else (0, False, False)
    return ReplicaMatch(
        left=left,
        racing=racing_pages(holder, packed, sent_at=sent_at, left=left),
        resident=here if sure else None,
        resident_at_least=here,
        last_cleared_at=replica.cleared_at,
        evidence_lost_at=replica.lost_at,
        removed=removed,
        last_removed_at=holder.removed_at if holder.removed_at > -inf else None,
    )


def _left(path: Sequence[Stretch], holder: Holder | None, at: float) -> int:
    """Leading pages that a holder had left at a time."""
    total = 0
    for run, _, pages in path:
        mark = run.marks.get(holder) if holder is not None else None
        if mark is None:
            break
        left = min(mark.left_by(at), pages)
        total += left
        if left < run.pages:
            break
    return total


def _resident(path: Sequence[Stretch], holder: Holder) -> tuple[int, bool, bool]:
    """Leading pages in the replica's GPU, whether the page after them surely isn't there, and
    whether an event removed that page.

    A page that the holder never had there is not in doubt.
    """
    total = 0
    for run, _, pages in path:
        mark = run.marks.get(holder)
        if mark is None:
            break
        within = min(mark.left, pages)
        here = mark.here(within)
        total += here
        if here < within:
            return total, mark.is_away(here), bool(mark.gone >> here & 1)
        if here < run.pages:
            break
    return total, True, False
