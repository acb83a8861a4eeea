"""The same contract as the radix tree in the most obvious form: every cached page by its prefix.

An oracle for tests; every operation walks everything.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from bench.engine_sim.changes import Namespace

Page = tuple[Namespace, tuple[int, ...]]
"""A page, named by its namespace and all the tokens up to and including it."""


@dataclass(slots=True)
class _State:
    last_access: int
    priority: int


class NaivePrefixCache:
    """Cached pages as a set; locks as a list of prefixes."""

    def __init__(self, *, page_size: int) -> None:
        self.page_size = page_size
        self._pages: dict[Page, _State] = {}
        self._locks: list[Page] = []
        self._now = 0

    @property
    def total_tokens(self) -> int:
        return len(self._pages) * self.page_size

    @property
    def protected_tokens(self) -> int:
        return sum(self.is_locked(page) for page in self._pages) * self.page_size

    def match(self, namespace: Namespace, ids: Sequence[int], *, limit: int | None = None) -> int:
        """Tokens of the longest cached prefix of the first `limit` ids; marks it as used."""
        self._now += 1
        matched = 0
        for page in self._prefixes(namespace, ids[:limit]):
            if page not in self._pages:
                break
            self._pages[page].last_access = self._now
            matched = len(page[1])
        return matched

    def insert(self, namespace: Namespace, ids: Sequence[int], *, priority: int = 0) -> int:
        """Remember the whole pages of `ids`; returns how many tokens were new."""
        matched = self.match(namespace, ids)
        for page in self._prefixes(namespace, ids):
            known = self._pages.get(page)
            state = known or _State(self._now, priority)
            state.priority = max(state.priority, priority)
            self._pages[page] = state
        return len(ids) - len(ids) % self.page_size - matched

    def lock(self, page: Page) -> None:
        self._locks.append(page)

    def unlock(self, page: Page) -> None:
        self._locks.remove(page)

    def is_locked(self, page: Page) -> bool:
        """Whether a locked prefix runs through the page."""
        namespace, prefix = page
        return any(
            owner == namespace and locked[: len(prefix)] == prefix for owner, locked in self._locks
        )

    def pages(self) -> set[Page]:
        return set(self._pages)

    def leaves(self) -> list[Page]:
        """Unlocked pages that nothing follows."""
        inner = {(owner, prefix[: -self.page_size]) for owner, prefix in self._pages}
        return [p for p in self._pages if p not in inner and not self.is_locked(p)]

    def rank(self, page: Page) -> tuple[int, int]:
        """Priority and last use of a cached page."""
        state = self._pages[page]
        return (state.priority, state.last_access)

    def remove(self, pages: Iterable[Page]) -> None:
        for page in pages:
            del self._pages[page]

    def clear(self) -> None:
        self._pages.clear()

    def _prefixes(self, namespace: Namespace, ids: Sequence[int]) -> list[Page]:
        ends = range(self.page_size, len(ids) + 1, self.page_size)
        return [(namespace, tuple(ids[:end])) for end in ends]
