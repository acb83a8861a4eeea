"""What replicas' KV events say about which pages are in their GPUs, noted in a tree of runs."""

import sys
from array import array
from collections.abc import Sequence

from cache.errors import PageSizeError
from cache.kv_events import GPU, BlockRemoved, BlockStored
from cache.page_keys import KEY_BYTES, PageKeyMaker, shared_pages
from cache.prefix_holders import Holders
from cache.prefix_marks import Holder, Mark, Replica
from cache.prefix_runs import Run, RunTree

_WORD = (1 << 64) - 1


class Residency:
    """Applies events. `unplaced_pages` counts pages stored after one that isn't known here."""

    def __init__(self, tree: RunTree, holders: Holders, maker: PageKeyMaker) -> None:
        self.unplaced_pages = 0
        self._tree = tree
        self._holders = holders
        self._maker = maker

    def stored(self, replica: Replica, event: BlockStored, *, at: float) -> None:
        """New pages; their keys are made here from their tokens.

        Raises:
            PageSizeError: the engine's pages have another size than the index's.
        """
        if event.medium not in (None, GPU) or event.lora_id is not None or event.lora_name:
            return
        if event.block_size != self._maker.page_tokens:
            raise PageSizeError(ours=self._maker.page_tokens, theirs=event.block_size)
        # All in one place: it is done for each request, and calls are most of what it takes.
        tree, names, done = self._tree, _packed(event.block_hashes), 0
        holder = self._holders.holder(event.cache_salt or "", replica)
        place = self._after(holder, event.parent_block_hash)
        if place is None:
            self.unplaced_pages += len(event.block_hashes)
            self._holders.sweep(holder)
            return
        run, page = place
        key = run.keys[(page - 1) * KEY_BYTES : page * KEY_BYTES] if page else b""
        keys = self._maker.noted(key, run.start + page, event.token_ids)
        stretches = tree.grow(keys, run, page)
        for run, start, stop in stretches:
            mark = run.marks.get(holder) or tree.new_mark(run, holder)
            if not mark.left:
                mark.left, mark.left_at = stop, at
            elif stop > mark.left or at < mark.left_at:
                mark.add_left(stop, at)
            mark.add_resident(start, stop)
            length = (stop - start) * KEY_BYTES
            tree.give_names(mark, start, names[done : done + length])
            done += length
        if stretches:
            tree.recency.touch(stretches[-1][0], holder)
        if not holder.marks:
            self._holders.sweep(holder)

    def removed(self, replica: Replica, event: BlockRemoved, *, at: float) -> None:
        if event.medium not in (None, GPU):
            return
        names = _packed(event.block_hashes)
        page, pages = 0, len(event.block_hashes)
        while page < pages:
            found = self._find(replica, _name(names, page), event.block_hashes[page])
            if found is None:
                replica.unnamed_removed_at = at
                page += 1
                continue
            mark, start = found
            # An engine's hashes are chained too, so equal ones further on mean equal ones before.
            length = shared_pages(mark.names, start, names, page)
            mark.add_gone(start, start + length)
            mark.holder.removed_at = at
            page += length

    def _after(self, holder: Holder, parent: int | None) -> tuple[Run, int] | None:
        """The run and the number of its pages after which new pages come; None if unknown."""
        if parent is None:
            return self._tree.root, 0
        packed = (parent & _WORD).to_bytes(KEY_BYTES, sys.byteorder)
        for mark, page in self._tree.named(parent, packed):
            if mark.holder is holder:
                return mark.run, page + 1
        return None

    def _find(self, replica: Replica, packed: bytes, name: int) -> tuple[Mark, int] | None:
        for mark, page in self._tree.named(name, packed):
            if mark.holder.replica is replica:
                return mark, page
        return None


def _packed(names: Sequence[int]) -> bytes:
    """Engine hashes, signed or unsigned, as 8 bytes each."""
    try:
        return array("q", names).tobytes()
    except OverflowError:
        return array("Q", [name & _WORD for name in names]).tobytes()


def _name(packed: bytes, page: int) -> bytes:
    return packed[page * KEY_BYTES : (page + 1) * KEY_BYTES]
