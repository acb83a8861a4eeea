"""A log's prompts through SGLang's prefix cache: what was re-used, and how much room it takes.

Modelled: full pages only, never the last token of a prompt (`input_len - 1`), answers kept beside
their prompts, one tree for each salt, least recently used pages evicted first, deeper ones before
those they hang on. Requests run one after the other in the order of the log.

Source: sglang 0.5.23 srt/mem_cache/radix_cache.py, srt/managers/schedule_batch.py.
"""

from array import array
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from cache.request_log.measure import PAGE_HASH_BYTES, PageChain

_WIDTH = PAGE_HASH_BYTES


class ReplayStep(NamedTuple):
    """One request; `kept` is its prompt with its answer, None where the answer isn't known."""

    salt: int
    prompt: PageChain
    kept: PageChain | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Replay:
    """Tokens of each request, and re-use by capacity; `cached` is with unbounded room.

    `room` is for each request the capacity, in tokens, that its re-use needs.
    """

    page_size: int
    prompt: Sequence[int]
    cached: Sequence[int]
    room: Sequence[int]
    distinct_pages: int
    curve: "HitCurve"

    @property
    def hit_rate(self) -> float | None:
        """Cached tokens over prompt tokens; None without any."""
        total = sum(self.prompt)
        return sum(self.cached) / total if total else None


class HitCurve:
    """Re-used pages as a function of capacity, exact at every capacity.

    Mattson's stack distances: a run of pages whose distances go up by one from `base + 1` is kept
    as two changes of slope.
    """

    def __init__(self) -> None:
        self._slopes: Counter[int] = Counter()

    def add(self, base: int, pages: int) -> None:
        """Count `pages` hits that need room for base + 1, base + 2, … pages."""
        self._slopes[base] += 1
        self._slopes[base + pages] -= 1

    def hit_pages(self, capacity_pages: int) -> int:
        """Pages that would have been re-used with room for `capacity_pages`."""
        return sum(
            slope * (capacity_pages - point)
            for point, slope in self._slopes.items()
            if point < capacity_pages
        )


def replay(steps: Iterable[ReplayStep], *, num_requests: int, page_size: int) -> Replay:
    """What each request finds of those before it."""
    cache = _Cache(num_requests)
    prompt, cached, room = array("Q"), array("Q"), array("Q")
    for now, step in enumerate(steps):
        usable = max(0, step.prompt.tokens - 1) // page_size
        matched, needed = cache.use(step.salt, step.prompt.pages, usable, now)
        if step.kept is not None:
            cache.use(step.salt, step.kept.pages, 0, now)
        prompt.append(step.prompt.tokens)
        cached.append(matched * page_size)
        room.append(needed * page_size)
    return Replay(
        page_size=page_size,
        prompt=prompt,
        cached=cached,
        room=room,
        distinct_pages=cache.uses.total,
        curve=cache.curve,
    )


class _Node:
    """A run of pages that were always used together: their hashes, and when they were last used."""

    __slots__ = ("last", "pages")

    def __init__(self, pages: bytes, last: int) -> None:
        self.pages = pages
        self.last = last


class _Cache:
    """A radix tree of page hashes for each salt; a node is found by the hash of its first page."""

    def __init__(self, num_requests: int) -> None:
        self.uses = _UseCounts(num_requests)
        self.curve = HitCurve()
        self._trees: dict[int, dict[bytes, _Node]] = {}

    def use(self, salt: int, pages: bytes, usable: int, now: int) -> tuple[int, int]:
        """Touch or add the pages.

        Returns:
            How many of them, at most `usable`, were there, and how many pages of room that took.
        """
        nodes = self._trees.setdefault(salt, {})
        at = matched = needed = 0
        while at < len(pages):
            node = nodes.get(pages[at : at + _WIDTH])
            if node is None:
                nodes[pages[at : at + _WIDTH]] = _Node(pages[at:], now)
                self.uses.move(None, now, (len(pages) - at) // _WIDTH)
                break
            if not pages.startswith(node.pages, at):
                _split(nodes, node, pages, at)
            run = len(node.pages) // _WIDTH
            hits = min(run, usable - matched)
            if hits > 0:
                # Pages before these on the path already count as used now, so they come first.
                base = self.uses.after(node.last)
                self.curve.add(base, hits)
                matched, needed = matched + hits, base + hits
            if node.last != now:
                self.uses.move(node.last, now, run)
                node.last = now
            at += len(node.pages)
        return matched, needed


def _split(nodes: dict[bytes, _Node], node: _Node, pages: bytes, at: int) -> None:
    """Cut a node where the pages leave it; at least its first page is shared."""
    run = node.pages
    low, high = 1, min(len(run), len(pages) - at) // _WIDTH + 1
    while high - low > 1:  # equal hashes at one page mean that all before it are equal
        middle = (low + high) // 2
        stop = middle * _WIDTH
        if run[stop - _WIDTH : stop] == pages[at + stop - _WIDTH : at + stop]:
            low = middle
        else:
            high = middle
    cut = low * _WIDTH
    if cut < len(run):
        nodes[run[cut : cut + _WIDTH]] = _Node(run[cut:], node.last)
        node.pages = run[:cut]


class _UseCounts:
    """How many pages were last used after a given request; a Fenwick tree over requests."""

    def __init__(self, num_requests: int) -> None:
        self.total = 0
        self._size = num_requests
        self._sums = [0] * (num_requests + 1)

    def move(self, last: int | None, now: int, pages: int) -> None:
        """Pages last used at `last` (None: new ones) are used now."""
        if last is None:
            self.total += pages
        else:
            self._add(last, -pages)
        self._add(now, pages)

    def after(self, request: int) -> int:
        """Pages last used after that request."""
        before, index = 0, request + 1
        sums = self._sums
        while index > 0:
            before += sums[index]
            index &= index - 1
        return self.total - before

    def _add(self, request: int, pages: int) -> None:
        index = request + 1
        sums = self._sums
        while index <= self._size:
            sums[index] += pages
            index += index & -index
