"""A radix tree of page keys that all salts share, with marks that say who has how much of it.

A run is a stretch of pages after which prompts part, or end; its keys lie in one `bytes`. What a
holder has is closed under prefixes: a mark on a run implies a full mark on each run above it.
"""

from collections.abc import Iterator
from typing import TypeAlias

import msgspec

from cache.page_keys import KEY_BYTES, shared_pages
from cache.prefix_marks import Holder, Mark
from cache.prefix_recency import Recency
from cache.residency_names import NameTable

_CROWD = 8  # marks on one run


class Run(msgspec.Struct, eq=False):
    """Consecutive pages; `start` is the place of the first one in its prompts."""

    parent: "Run | None"
    start: int
    keys: bytes
    marks: dict[Holder, Mark] = msgspec.field(default_factory=dict)
    children: "dict[bytes, Run] | None" = None

    @property
    def pages(self) -> int:
        return len(self.keys) // KEY_BYTES

    def adopt(self, child: "Run") -> None:
        child.parent = self
        if self.children is None:
            self.children = {}
        self.children[child.keys[:KEY_BYTES]] = child


# A run, and which of its pages: from, to.
Stretch: TypeAlias = tuple[Run, int, int]


class RunTree:
    """The runs and the marks on them. `pages` counts distinct pages."""

    def __init__(self) -> None:
        self.root = Run(None, 0, b"")
        self.pages = 0
        self.runs = 0
        self.recency = Recency()
        self.names = NameTable()
        self.named_pages = 0
        self._numbered: list[Mark | None] = [None]
        self._free_numbers: list[int] = []

    def path(self, packed: bytes, run: Run | None = None, page: int = 0) -> list[Stretch]:
        """The stretches that a prefix goes through, as far as they are known.

        With `run` and `page`, `packed` continues a prefix that ends within or after that run.
        """
        at, found = 0, []
        end = len(packed)
        run = run or self.root
        if page * KEY_BYTES < len(run.keys):
            shared = shared_pages(run.keys, page, packed, 0)
            found.append((run, page, page + shared))
            if (page + shared) * KEY_BYTES < len(run.keys):
                return found
            at = shared * KEY_BYTES
        while at < end and run.children is not None:
            child = run.children.get(packed[at : at + KEY_BYTES])
            if child is None:
                break
            run, keys = child, child.keys
            length = len(keys)
            if packed[at + length - KEY_BYTES : at + length] != keys[-KEY_BYTES:]:
                length = shared_pages(keys, 0, packed, at // KEY_BYTES) * KEY_BYTES
            found.append((run, 0, length // KEY_BYTES))
            if length < len(keys):
                break
            at += length
        return found

    def grow(self, packed: bytes, run: Run | None = None, page: int = 0) -> list[Stretch]:
        """Like `path`, after adding what isn't known: the stretches cover all of `packed`."""
        found = self.path(packed, run, page)
        known = 0
        for _, start, stop in found:
            known += stop - start
        rest = packed[known * KEY_BYTES :]
        if not rest:
            if found:
                last, start, stop = found[-1]
                # Many end in it: it is cut where this one does, so that few marks are partial.
                if len(last.marks) >= _CROWD and start < stop < last.pages:
                    found[-1] = (self._split(last, stop), start, stop)
            return found
        last, start, stop = found.pop() if found else (run or self.root, page, page)
        pages, more = len(last.keys) // KEY_BYTES, len(rest) // KEY_BYTES
        if stop < pages:
            last, pages = self._split(last, stop), stop
        self.pages += more
        if last is not self.root and not last.children:
            last.keys += rest
            found.append((last, start, pages + more))
            return found
        if stop > start:
            found.append((last, start, stop))
        child = Run(last, last.start + pages, rest)
        if last.children is None:
            last.children = {}
        last.children[rest[:KEY_BYTES]] = child
        self.runs += 1
        found.append((child, 0, more))
        return found

    def new_mark(self, run: Run, holder: Holder) -> Mark:
        """A holder's mark on a run where it has none. `touch` before anything else."""
        mark = run.marks[holder] = Mark(run, holder, epoch=holder.replica.epoch)
        holder.hold(mark)
        self.recency.add(mark)
        return mark

    def forget(self, mark: Mark) -> None:
        """Drops a mark below which its holder has no other, and pages that nobody has any more."""
        run, holder = mark.run, mark.holder
        self._unname(mark)
        self.recency.remove(mark)
        del run.marks[holder]
        holder.let_go(mark)
        if not run.marks:
            self._drop(run)
        elif not run.children and mark.left == run.pages:
            self._shorten(run)

    def give_names(self, mark: Mark, start: int, packed: bytes) -> None:
        """The engine's hashes of a run's pages from `start` on, 8 bytes each."""
        first, end = start * KEY_BYTES, start * KEY_BYTES + len(packed)
        if mark.names[first:end] == packed:
            return
        if mark.number == 0:
            mark.number = self._new_number(mark)
        old = mark.names
        if first >= len(old):
            mark.names = old.ljust(first, b"\0") + packed
        else:
            for name in _words(old[first:end]):
                self.names.discard(name, mark.number)
            mark.names = old[:first] + packed + old[end:]
        self.names.add_all(packed, mark.number)
        self.named_pages += (len(mark.names) - len(old)) // KEY_BYTES

    def named(self, name: int, packed_name: bytes) -> list[tuple[Mark, int]]:
        """The pages that engines call by a name: a mark and the page's place in its run."""
        found = []
        for number in self.names.numbers(name):
            mark = self._numbered[number]
            assert mark is not None, "a mark's names outlived it"
            at = mark.names.find(packed_name)
            while at % KEY_BYTES > 0:
                at = mark.names.find(packed_name, at + 1)
            if at >= 0:
                found.append((mark, at // KEY_BYTES))
        return found

    def _split(self, lower: Run, pages: int) -> Run:
        """Cuts a run after `pages` pages; returns the new upper part."""
        cut = pages * KEY_BYTES
        upper = Run(lower.parent, lower.start, lower.keys[:cut])
        assert lower.parent is not None
        lower.parent.adopt(upper)
        lower.keys, lower.start = lower.keys[cut:], lower.start + pages
        upper.adopt(lower)
        self.runs += 1
        for holder, mark in list(lower.marks.items()):
            if mark.left <= pages:
                del lower.marks[holder]
                upper.marks[holder], mark.run = mark, upper
            else:
                self._split_mark(mark, upper, pages)
        return upper

    def _split_mark(self, lower: Mark, run: Run, pages: int) -> None:
        upper = run.marks[lower.holder] = Mark(run, lower.holder, epoch=lower.holder.replica.epoch)
        lower.holder.hold(upper)
        self.recency.add_above(upper, lower)
        lower.split(upper, pages)
        if lower.number:
            self._split_names(upper, lower)

    def _split_names(self, upper: Mark, lower: Mark) -> None:
        """The one with more names keeps the number under which they are filed."""
        if len(upper.names) > len(lower.names):
            fewer, kept = lower, upper
        else:
            fewer, kept = upper, lower
        number = lower.number
        kept.number, fewer.number = number, 0
        self._numbered[number] = kept
        if fewer.names:
            fewer.number = self._new_number(fewer)
        for name in _words(fewer.names):
            self.names.discard(name, number)
            self.names.add(name, fewer.number)

    def _unname(self, mark: Mark) -> None:
        if mark.number:
            for name in _words(mark.names):
                self.names.discard(name, mark.number)
            self.named_pages -= len(mark.names) // KEY_BYTES
            self._numbered[mark.number] = None
            self._free_numbers.append(mark.number)

    def _new_number(self, mark: Mark) -> int:
        if self._free_numbers:
            number = self._free_numbers.pop()
            self._numbered[number] = mark
            return number
        self._numbered.append(mark)
        return len(self._numbered) - 1

    def _drop(self, run: Run) -> None:
        assert not run.children, "a run without marks has no children"
        assert run.parent is not None
        assert run.parent.children is not None
        del run.parent.children[run.keys[:KEY_BYTES]]
        if not run.parent.children:
            run.parent.children = None
        self.pages -= run.pages
        self.runs -= 1

    def _shorten(self, run: Run) -> None:
        """Drops pages at a leaf's end that no mark reaches."""
        pages = 0
        for mark in run.marks.values():
            pages = max(pages, mark.left)
            if pages == run.pages:
                return
        self.pages -= run.pages - pages
        run.keys = run.keys[: pages * KEY_BYTES]


def _words(packed: bytes) -> Iterator[int]:
    """Hashes as unsigned integers; zeros, which stand for none, are left out."""
    return (name for name in memoryview(packed).cast("Q") if name)
