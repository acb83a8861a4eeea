"""The KV pool: who holds which tokens of it, and what the tier behind it may add. Pure.

A running request holds the pages that are its own (uncached prompt and room for its answer); all
else that is used belongs to the radix tree. The room for the whole answer is taken at admission,
so that a request, once running, never has to be retracted for want of memory.
"""

from bench.engine_sim.config import SimulatorConfig
from bench.engine_sim.radix import RadixTree
from bench.engine_sim.request import Cached, EngineRequest
from bench.engine_sim.tier import Tier


class KvPool:
    """The memory of one replica."""

    def __init__(self, config: SimulatorConfig) -> None:
        self.capacity_tokens = config.pool_tokens
        self.page_size = config.page_size
        self.tree = RadixTree(
            page_size=config.page_size,
            policy=config.eviction,
            record_changes=config.events is not None,
        )
        self.tier = Tier(config.tier) if config.tier is not None else None
        self.tier_down = False
        self.held_tokens = 0
        self.evicted_tokens = 0

    @property
    def used_tokens(self) -> int:
        """Tokens that can't be had by eviction: what running requests stand on."""
        return self.held_tokens + self.tree.protected_tokens

    @property
    def free_tokens(self) -> int:
        """Tokens that nobody holds, the tree included."""
        return self.capacity_tokens - self.held_tokens - self.tree.total_tokens

    def look_up(self, request: EngineRequest) -> int | None:
        """Prompt tokens the tier holds beyond the pool; None where there is no tier to ask.

        Remembered in the request, as SGLang asks once, when the request arrives.
        """
        if self.tier is None or self.tier_down:
            return None
        # The last token is always computed: its logits are needed.
        stored = self.tier.lookup(request.namespace, request.prompt[:-1])
        request.storage_tokens = stored
        return max(0, stored - self._match(request))

    def admit(self, request: EngineRequest) -> bool:
        """Reserve memory and lock the cached prefix; False when there is no room now."""
        found = self.tree.match(request.namespace, request.prompt, limit=len(request.prompt) - 1)
        self.tree.lock(found.node)
        whole = self._page_ceil(len(request.prompt) + request.max_new_tokens)
        needed = whole - found.tokens
        short = needed - self.free_tokens
        if short > self.tree.evictable_tokens:
            self.tree.unlock(found.node)
            return False
        if short > 0:
            self.evicted_tokens += self.tree.evict(short)
        request.node = found.node
        request.held_tokens = needed
        self.held_tokens += needed
        storage = request.storage_tokens
        loaded = None if self.tier is None else max(0, (storage or 0) - found.tokens)
        request.cached = Cached(device=found.tokens, storage=loaded)
        request.uncached_left = len(request.prompt) - request.cached.tokens
        return True

    def remember(self, request: EngineRequest) -> None:
        """Move the request's computed pages into the tree, and lock them there."""
        assert request.node is not None
        computed = request.computed
        self.tree.insert(request.namespace, computed, priority=request.priority or 0)
        found = self.tree.match(request.namespace, computed)
        self.tree.lock(found.node)
        self.tree.unlock(request.node)
        request.node = found.node
        self._hold(request, self._page_ceil(self._most_tokens(request)) - found.tokens)

    def release(self, request: EngineRequest) -> None:
        """Give back all that a request holds; its computed pages stay, here and in the tier."""
        if request.node is None:
            return
        if request.uncached_left == 0:
            self.remember(request)
            if self.tier is not None and not self.tier_down:
                self.tier.store(request.namespace, request.computed)
        self._hold(request, 0)
        self.tree.unlock(request.node)
        request.node = None

    def _match(self, request: EngineRequest) -> int:
        limit = len(request.prompt) - 1
        return self.tree.match(request.namespace, request.prompt, limit=limit).tokens

    def _hold(self, request: EngineRequest, tokens: int) -> None:
        self.held_tokens += tokens - request.held_tokens
        request.held_tokens = tokens

    def _most_tokens(self, request: EngineRequest) -> int:
        return len(request.prompt) + request.max_new_tokens

    def _page_ceil(self, tokens: int) -> int:
        return -(-tokens // self.page_size) * self.page_size
