"""Where a corpus' KV is, as far as the engine's events told. Pure but for the index it reads."""

import time
from dataclasses import dataclass

from cache.page_keys import PageKeys
from cache.prefix_index import PrefixIndex


@dataclass(frozen=True, slots=True, kw_only=True)
class Whereabouts:
    """Leading tokens of a prefix that are somewhere.

    `resident_tokens` is None where no events tell of the engine's memory, `cleared_at` is when that
    was last emptied by a flush or a restart.
    """

    resident_tokens: int | None = None
    tiered_tokens: int = 0
    cleared_at: float | None = None


@dataclass(slots=True)
class PrefixWatch:
    """One prefix under one salt, looked up in the index again and again."""

    token_ids: bytes
    _index: PrefixIndex | None = None
    _keys: PageKeys | None = None

    def keys(self, index: PrefixIndex) -> PageKeys:
        """Its page keys; made once for each index, since each has a secret of its own."""
        if self._keys is None or self._index is not index:
            self._index, self._keys = index, index.keys(self.token_ids)
        return self._keys

    def look(
        self, index: PrefixIndex | None, *, salt: str, replica: str, tier: str = ""
    ) -> Whereabouts:
        """Where it is now; `tier` names the replica's own tiers."""
        if index is None:
            return Whereabouts()
        match = index.match(self.keys(index), salt=salt, sent_at=time.monotonic())
        here = match.replicas.get(replica)
        resident = here.resident if here is not None else None
        return Whereabouts(
            resident_tokens=None if resident is None else resident * index.page_tokens,
            tiered_tokens=match.given(tier) * index.page_tokens,
            cleared_at=here.last_cleared_at if here is not None else None,
        )

    def warmed(
        self,
        index: PrefixIndex | None,
        tokens: int,
        *,
        salt: str,
        replica: str,
        chunk: int | None,
        tier: str = "",
    ) -> None:
        """The engine holds its first `tokens` tokens, and the tiers whole chunks of them."""
        if index is None:
            return
        keys, now = self.keys(index).prefix(tokens // index.page_tokens), time.monotonic()
        index.computed(keys, salt=salt, replica=replica, at=now)
        if chunk:
            pages = tokens // chunk * chunk // index.page_tokens
            index.tiered(keys.prefix(pages), salt=salt, at=now, tier=tier)
