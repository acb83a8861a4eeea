"""What is remembered of the prompts that were sent: one index and one accountant for all replicas.

They are of one model at one page size. Another model begins with empty ones.
"""

from dataclasses import dataclass
from typing import Protocol

from app.replica_view import ReplicaView
from app.settings import AccountingSettings
from cache import accounting_values
from cache.accounting import Accountant
from cache.prefix_index import PrefixIndex

# Pages of prompts, where the settings don't say: several replicas' pools, and their tiers.
_POOLS = 16
_FEWEST_PAGES, _MOST_PAGES = 250_000, 4_000_000
_PAGES_OF_UNKNOWN_POOL = 1_000_000


class Teller(Protocol):
    """Whoever tells other gateways what the index learns."""

    def telling(self, index: PrefixIndex) -> accounting_values.PrefixIndex:
        """The index, for the accountant."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Books:
    """What belongs to one model at one page size."""

    of: tuple[str, int]
    index: PrefixIndex
    accountant: Accountant


class BookShelf:
    """The books that are kept now. One event loop owns it.

    Args:
        key: keeps page hashes from being made up by clients.
        teller: tells other gateways, where there are any.
    """

    def __init__(
        self, settings: AccountingSettings, *, key: bytes, teller: Teller | None = None
    ) -> None:
        self._settings = settings
        self._key = key
        self._teller = teller
        self.current: Books | None = None

    @property
    def index(self) -> PrefixIndex | None:
        """What is believed to be where; None until an engine was met."""
        return self.current.index if self.current else None

    def of(self, view: ReplicaView) -> Books:
        """The books of an engine's model; new ones where those before are of another."""
        of = (view.info.model_path, view.info.page_tokens)
        if self.current is None or self.current.of != of:
            limits, page_tokens = self._settings, view.info.page_tokens
            most = limits.max_pages or _pages_worth_knowing(view.info.pool_tokens, page_tokens)
            index = PrefixIndex(page_tokens=page_tokens, max_pages=most, key=self._key)
            learning = index if self._teller is None else self._teller.telling(index)
            accountant = Accountant(learning, max_lineages=limits.max_lineages)
            self.current = Books(of=of, index=index, accountant=accountant)
        return self.current


def _pages_worth_knowing(pool_tokens: int | None, page_tokens: int) -> int:
    """For what replicas and their tiers may hold together, so that memory goes with the engine."""
    if pool_tokens is None:
        return _PAGES_OF_UNKNOWN_POOL
    return min(_MOST_PAGES, max(_FEWEST_PAGES, _POOLS * pool_tokens // page_tokens))
