"""The SGLang plugin: refuses other versions, has calls read that must come (`demanded_calls.py`),
and guards the LMCache cache when one is made.

SGLang runs `register` in each of its processes (sglang/srt/plugins/__init__.py:103, 0.5.23); only
the scheduler makes a cache, so LMCache is imported there and nowhere else: the hook sits on
`default_radix_cache_factory` (sglang/srt/mem_cache/registry.py:83), which chooses the cache.
"""

import functools
import os
from typing import Any

from foreword_guard import demanded_calls
from foreword_guard.errors import GuardError
from foreword_guard.metric_files import VARIABLE, preallocate
from foreword_guard.versions import LMCACHE, SGLANG, refuse, require


def register() -> None:
    """Entry point `sglang.srt.plugins`.

    Raises:
        SystemExit: another SGLang than the guard was made for. SGLang swallows anything less.
    """
    try:
        require(SGLANG)
    except GuardError as error:
        raise refuse(error) from error
    if os.environ.get(VARIABLE):
        preallocate()
    demanded_calls.install()
    from sglang.srt.mem_cache import registry

    choose = registry.default_radix_cache_factory

    @functools.wraps(choose)
    def choose_guarded(ctx: Any) -> Any:
        if registry.get_memory().enable_lmcache:
            guard_lmcache()
        return choose(ctx)

    registry.default_radix_cache_factory = choose_guarded


def guard_lmcache() -> None:
    """Put the guard into LMCache's connector and SGLang's cache for it.

    Raises:
        SystemExit: another LMCache than the guard was made for, or a setting that can't be used.
    """
    try:
        require(LMCACHE)
        from lmcache.integration.sglang.unified_lmcache_mp_connector import (
            UnifiedLMCacheMPConnector,
        )
        from lmcache.v1.multiprocess.transport.factory import RequestClientFactory
        from sglang.srt.mem_cache.storage.lmcache.lmcache_unified_radix_cache import (
            LMCacheUnifiedRadixCache,
        )

        from foreword_guard.hooks import install

        install(UnifiedLMCacheMPConnector, LMCacheUnifiedRadixCache, RequestClientFactory)
    except GuardError as error:
        raise refuse(error) from error
