"""The storage behind the engine's memory, as LMCache keeps it for SGLang.

Whole chunks only, each on its own: a chunk that was evicted ends every prefix that runs through
it. Pure.
"""

from collections import OrderedDict
from collections.abc import Sequence

from bench.engine_sim.changes import Namespace
from bench.engine_sim.config import TierConfig
from cache.pages import page_hashes


class Tier:
    """Chunks by their chained hash, the least recently used first to go."""

    def __init__(self, config: TierConfig) -> None:
        self.config = config
        self._chunks: OrderedDict[bytes, None] = OrderedDict()

    @property
    def used_tokens(self) -> int:
        return len(self._chunks) * self.config.chunk_tokens

    def store(self, namespace: Namespace, ids: Sequence[int]) -> int:
        """Keep the whole chunks of `ids`; returns how many tokens were new."""
        before = len(self._chunks)
        added = 0
        for chunk in self._hashes(namespace, ids):
            added += chunk not in self._chunks
            self._chunks[chunk] = None
            self._chunks.move_to_end(chunk)
        room = self.config.capacity_tokens // self.config.chunk_tokens
        for _ in range(max(0, before + added - room)):
            self._chunks.popitem(last=False)
        return added * self.config.chunk_tokens

    def lookup(self, namespace: Namespace, ids: Sequence[int]) -> int:
        """Tokens of the longest stored prefix, in whole chunks; marks them as used."""
        matched = 0
        for chunk in self._hashes(namespace, ids):
            if chunk not in self._chunks:
                break
            self._chunks.move_to_end(chunk)
            matched += self.config.chunk_tokens
        return matched

    def clear(self) -> None:
        self._chunks.clear()

    def _hashes(self, namespace: Namespace, ids: Sequence[int]) -> list[bytes]:
        salt = repr((namespace.salt, namespace.extra_key)).encode()
        return page_hashes(ids, page_size=self.config.chunk_tokens, salt=salt)
