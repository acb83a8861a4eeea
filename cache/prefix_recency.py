"""Marks in the order of their last use, as a linked list through the marks themselves."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from cache.prefix_marks import Holder, Mark

if TYPE_CHECKING:
    from cache.prefix_runs import Run


class Recency:
    """Least recently used first.

    Whoever touches a mark touches that of the same holder on each run above it afterwards; so none
    is ever older than one below it, and the oldest of all has none below it.
    """

    __slots__ = ("newest", "oldest", "size")

    def __init__(self) -> None:
        self.oldest: Mark | None = None
        self.newest: Mark | None = None
        self.size = 0

    def __iter__(self) -> Iterator[Mark]:
        """Oldest first; the mark at hand may be removed."""
        mark = self.oldest
        while mark is not None:
            newer = mark.newer
            yield mark
            mark = newer

    def add(self, mark: Mark) -> None:
        """A new mark, as the newest."""
        mark.older, mark.newer = self.newest, None
        if self.newest is None:
            self.oldest = mark
        else:
            self.newest.newer = mark
        self.newest = mark
        self.size += 1

    def add_above(self, mark: Mark, below: Mark) -> None:
        """A new mark, next newer than `below`."""
        newer = below.newer
        if newer is None:
            self.add(mark)
            return
        mark.older, mark.newer = below, newer
        below.newer = newer.older = mark
        self.size += 1

    def remove(self, mark: Mark) -> None:
        older, newer = mark.older, mark.newer
        if older is None:
            self.oldest = newer
        else:
            older.newer = newer
        if newer is None:
            self.newest = older
        else:
            newer.older = older
        mark.older = mark.newer = None
        self.size -= 1

    def touch(self, run: "Run | None", holder: Holder) -> None:
        """A holder used a run and all above it; it has a mark on each."""
        last = self.newest
        assert last is not None
        while run is not None and run.parent is not None:
            mark = run.marks[holder]
            run, newer = run.parent, mark.newer
            if newer is None:
                continue  # it is the newest
            older = mark.older
            if older is None:
                self.oldest = newer
            else:
                older.newer = newer
            newer.older = older
            mark.older, mark.newer, last.newer = last, None, mark
            last = mark
        self.newest = last
