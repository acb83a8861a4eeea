"""Runs in the engine: puts SGLang's KV pool itself into the memory that LMCache shares.

With it, another process writes into the engine's pages on a CPU, as it does on a GPU; without it
LMCache's `lmcache_driven` mode shares a copy, which the guard refuses. Loaded as an SGLang plugin
by test_engine_late_load.py.
"""

import functools
from typing import Any


def register() -> None:
    """Entry point `sglang.srt.plugins`."""
    from lmcache.integration.sglang.unified_lmcache_mp_connector import UnifiedLMCacheMPConnector

    original = UnifiedLMCacheMPConnector.register_kv_cache

    @functools.wraps(original)
    def register_kv_cache(self: Any) -> None:
        original(self)
        pool = self._sglang_kv_adapter.token_to_kv_pool_allocator.get_kvcache()
        for own, shared in zip(
            [*pool.k_buffer, *pool.v_buffer], self._kv_caches.values(), strict=True
        ):
            own.set_(shared.untyped_storage(), shared.storage_offset(), own.shape, own.stride())

    UnifiedLMCacheMPConnector.register_kv_cache = register_kv_cache
