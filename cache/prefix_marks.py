"""What one salt has on one replica, as marks on the runs of a prefix tree.

All that a mark says is about the first pages of its run: how many were left and by when, how many a
request last had and when. Only what the engine's events say is kept by page, as bits of an integer.
"""

from dataclasses import dataclass, field
from math import inf
from typing import TYPE_CHECKING

import msgspec

from cache.page_keys import KEY_BYTES, PageKeys
from cache.prefix_match import ReplicaMatch

if TYPE_CHECKING:
    from cache.prefix_runs import Run

# Older times than these are blurred: what was left then counts as left by the next later time.
_STEPS = 4


@dataclass(slots=True, eq=False)
class Replica:
    """What is known of a replica's events.

    `epoch` counts the times at which all knowledge of what is resident became void. `complete`
    means that no event was missed since the cache was empty.
    """

    name: str
    heard: bool = False
    complete: bool = True
    epoch: int = 0
    cleared_at: float | None = None
    lost_at: float | None = None
    unnamed_removed_at: float = -inf

    @property
    def void_before(self) -> float:
        """Up to when requests say nothing about what is resident now."""
        return max(_time(self.cleared_at), _time(self.lost_at))

    def nothing(self) -> ReplicaMatch:
        """The match of a prompt of which it never had anything."""
        return ReplicaMatch(
            resident=0 if self.heard else None,
            last_cleared_at=self.cleared_at,
            evidence_lost_at=self.lost_at,
        )


@dataclass(slots=True, eq=False)
class Holder:
    """One salt on one replica; `marks` counts its marks, `flights` are its requests under way.

    The marks themselves are linked, from `last` on, so that they are found among all others'.
    """

    salt: str
    replica: Replica
    marks: int = 0
    last: "Mark | None" = None
    removed_at: float = -inf
    flights: list[tuple[float, PageKeys]] = field(default_factory=list)

    def hold(self, mark: "Mark") -> None:
        """A new mark of its own."""
        mark.former, mark.latter = self.last, None
        if self.last is not None:
            self.last.latter = mark
        self.last = mark
        self.marks += 1

    def let_go(self, mark: "Mark") -> None:
        former, latter = mark.former, mark.latter
        if former is not None:
            former.latter = latter
        if latter is None:
            self.last = former
        else:
            latter.former = former
        mark.former = mark.latter = None
        self.marks -= 1

    def held(self) -> "list[Mark]":
        """Its marks, each before those on the runs above it."""
        found, mark = [], self.last
        while mark is not None:
            found.append(mark)
            mark = mark.former
        return sorted(found, key=lambda mark: mark.run.start, reverse=True)


class Mark(msgspec.Struct, eq=False):
    """What a holder has of one run.

    `resident`, `gone` and `named` have a bit for each page: stored by an event and not removed,
    removed, and known by an engine's hash. `names` holds those hashes, 8 bytes a page.
    """

    run: "Run"
    holder: Holder
    epoch: int
    left: int = 0
    left_at: float = -inf
    left_before: tuple[tuple[int, float], ...] = ()
    seen: int = 0
    seen_at: float = -inf
    seen_before: tuple[tuple[int, float], ...] = ()
    resident: int = 0
    gone: int = 0
    named: int = 0
    names: bytes = b""
    number: int = 0
    older: "Mark | None" = None
    newer: "Mark | None" = None
    former: "Mark | None" = None
    latter: "Mark | None" = None

    def left_by(self, at: float) -> int:
        """Pages that were left at a time."""
        if at >= self.left_at:
            return self.left
        return next((pages for pages, time in reversed(self.left_before) if time <= at), 0)

    def add_left(self, pages: int, at: float) -> None:
        """The first `pages` pages were ready at a time, if not before."""
        if at >= self.left_at and pages <= self.left:
            return
        if not self.left:
            self.left, self.left_at = pages, at
            return
        steps = [*self.left_before, (self.left, self.left_at)]
        sooner = [step for step in steps if step[1] < at or (step[0] >= pages and step[1] == at)]
        if not sooner or sooner[-1][0] < pages:
            sooner.append((pages, at))
        self._set_left([*sooner, *(step for step in steps if step[1] > at and step[0] > pages)])

    def seen_since(self, at: float) -> int:
        """The most pages that a request had later than a time."""
        if self.seen_at <= at:
            return 0
        return next((pages for pages, time in self.seen_before if time > at), self.seen)

    def page_seen_at(self, page: int) -> float:
        """When a request last had a page."""
        if page < self.seen:
            return self.seen_at
        return next((time for pages, time in reversed(self.seen_before) if page < pages), -inf)

    def add_seen(self, pages: int, at: float) -> None:
        """A request had the first `pages` pages at a time."""
        if at >= self.seen_at and pages >= self.seen and not self.seen_before:
            self.seen, self.seen_at = pages, at
            return
        steps = [*self.seen_before, (self.seen, self.seen_at)] if self.seen else []
        if any(length >= pages and time >= at for length, time in steps):
            return
        kept = [step for step in steps if step[0] > pages or step[1] > at]
        self._set_seen(sorted([*kept, (pages, at)], key=lambda step: step[1]))

    def freshen(self) -> None:
        """Drops what its replica's events said before they became void."""
        if self.epoch != self.holder.replica.epoch:
            self.epoch = self.holder.replica.epoch
            self.resident = self.gone = 0

    def add_resident(self, start: int, stop: int) -> None:
        if self.epoch != self.holder.replica.epoch:
            self.freshen()
        pages = (1 << stop) - (1 << start)
        self.resident |= pages
        self.gone &= ~pages
        # One integer serves for both where they are equal, as they nearly always are.
        named = self.named | pages
        self.named = self.resident if named == self.resident else named

    def add_gone(self, start: int, stop: int) -> None:
        self.freshen()
        pages = bits(start, stop)
        self.resident &= ~pages
        self.gone |= pages

    def here(self, pages: int) -> int:
        """How many of the first `pages` pages are in the replica's GPU, up to one in doubt.

        A page is there when an event stored it and none removed it, and also when a request had it
        and no removal was announced since: its event may still be on the way, and a hit has none.
        """
        self.freshen()
        missing = ((1 << pages) - 1) & ~self.resident
        if missing:
            missing &= ~self._believed()
        return (missing & -missing).bit_length() - 1 if missing else pages

    def is_away(self, page: int) -> bool:
        """Whether a page that `here` didn't count is known not to be there."""
        if self.gone >> page & 1:
            return True
        replica = self.holder.replica
        if not replica.complete:
            return False
        # Where pages were removed that have no name here, it may be one of them, or still there.
        was_seen = _time(replica.cleared_at) < self.page_seen_at(page)
        return bool(self.named >> page & 1) or not was_seen

    def split(self, upper: "Mark", pages: int) -> None:
        """Moves what it says about its first `pages` pages to `upper`."""
        self.freshen()
        left = [*self.left_before, (self.left, self.left_at)]
        seen = [*self.seen_before, (self.seen, self.seen_at)] if self.seen else []
        full = next(number for number, step in enumerate(left) if step[0] >= pages)
        upper._set_left([*left[:full], (pages, left[full][1])])
        self._set_left([(step[0] - pages, step[1]) for step in left if step[0] > pages])
        for length, at in seen:
            upper.add_seen(min(length, pages), at)
        self._set_seen([(step[0] - pages, step[1]) for step in seen if step[0] > pages])
        self._split_bits(upper, pages)

    def _split_bits(self, upper: "Mark", pages: int) -> None:
        low = bits(0, pages)
        upper.resident, self.resident = self.resident & low, self.resident >> pages
        upper.gone, self.gone = self.gone & low, self.gone >> pages
        upper.named, self.named = self.named & low, self.named >> pages
        cut = pages * KEY_BYTES
        upper.names, self.names = self.names[:cut], self.names[cut:]

    def _believed(self) -> int:
        """Pages that are there though no event says so."""
        replica, void = self.holder.replica, self.holder.replica.void_before
        believed = bits(0, self.seen_since(void))
        if self.gone & believed:
            believed &= ~self.gone | bits(0, self.seen_since(max(void, self.holder.removed_at)))
        if believed & ~self.named:
            believed &= self.named | bits(0, self.seen_since(max(void, replica.unnamed_removed_at)))
        return believed

    def _set_left(self, steps: list[tuple[int, float]]) -> None:
        self.left, self.left_at = steps[-1]
        self.left_before = tuple(steps[-_STEPS:-1])

    def _set_seen(self, steps: list[tuple[int, float]]) -> None:
        self.seen, self.seen_at = steps[-1] if steps else (0, -inf)
        self.seen_before = tuple(steps[-_STEPS:-1])


def bits(start: int, stop: int) -> int:
    """An integer with the bits `start` … `stop` - 1 set."""
    return (1 << stop) - (1 << start)


def _time(at: float | None) -> float:
    return -inf if at is None else at
