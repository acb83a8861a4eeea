"""What the engine says about one request: prompt, output and cached tokens, by tier.

The one rule here: unknown is `None`, and only a number that the engine reported (or that follows
from one by arithmetic) is a number. SGLang reports 0 as 0 when its cache report is on and nothing
when it is off, so an absent field never means zero.
"""

import math
from collections.abc import Collection, Mapping
from enum import StrEnum

import msgspec


class Tier(StrEnum):
    """Where KV can be loaded from, fastest first."""

    GPU = "gpu"
    RAM = "ram"
    SSD = "ssd"
    REDIS = "redis"


class TierTokens(msgspec.Struct, kw_only=True, frozen=True, gc=False):
    """Cached prompt tokens by tier; `None` is unknown.

    `storage` is everything from below the GPU, so it equals ram + ssd + redis wherever those are
    known; LMCache's tiers reach the engine as this one sum.
    """

    gpu: int | None = None
    ram: int | None = None
    ssd: int | None = None
    redis: int | None = None
    storage: int | None = None


_UNKNOWN_TIERS = TierTokens()


class CacheUsage(msgspec.Struct, kw_only=True, frozen=True, gc=False):
    """Token counts of one request; `None` is unknown."""

    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    cached_tokens: int | None = None
    by_tier: TierTokens = _UNKNOWN_TIERS


class _Details(msgspec.Struct, kw_only=True, frozen=True, gc=False):
    device: int
    host: int
    storage: int
    total: int
    backend: str | None


LMCACHE_TIERS = frozenset({Tier.RAM, Tier.SSD, Tier.REDIS})

# HiCache names its storage backend by class; only the one that is known to be a disk is split.
# Source: sglang 0.5.23, srt/mem_cache/hicache_storage.py (class HiCacheFile).
_HICACHE_TIERS: Mapping[str, Tier] = {"HiCacheFile": Tier.SSD}
_NOTHING_CACHED = TierTokens(gpu=0, ram=0, ssd=0, redis=0, storage=0)


def parse_usage(
    usage: Mapping[str, object] | None,
    sglext: Mapping[str, object] | None,
    *,
    lmcache_tiers: Collection[Tier] = LMCACHE_TIERS,
) -> CacheUsage:
    """The token counts of one response, as far as they are known.

    A count that is not a whole number >= 0, more cached tokens than prompt tokens, and a split that
    does not add up are all taken as "not known": they are never repaired by guessing.

    Args:
        usage: the response's `usage` object, or None when it had none.
        sglext: the response's (or the stream chunk's) `sglext` object, or None.
        lmcache_tiers: the tiers that LMCache runs with. With one tier only, what LMCache loaded can
            only have come from it; with more, the split of a load is not known.

    Source: sglang 0.5.23, srt/entrypoints/openai/usage_processor.py (cached tokens, only with
        --enable-cache-report) and srt/managers/scheduler_components/output_streamer.py
        `get_cached_tokens_details` (absent when nothing was cached; `storage` absent when 0).
    """
    fields = usage or {}
    prompt_tokens, output = fields.get("prompt_tokens"), fields.get("completion_tokens")
    # A bool is no count.
    if type(prompt_tokens) is not int or prompt_tokens < 0:
        prompt_tokens = None
    details = _details(sglext.get("cached_tokens_details")) if sglext else None
    of_prompt = fields.get("prompt_tokens_details")
    cached_tokens = of_prompt.get("cached_tokens") if isinstance(of_prompt, dict) else None
    if cached_tokens is None:
        # The split comes without the cache report too, and SGLang leaves out no part but a zero.
        cached_tokens = details.total if details else None
    most = math.inf if prompt_tokens is None else prompt_tokens
    if type(cached_tokens) is not int or not 0 <= cached_tokens <= most:
        cached_tokens = None
    return CacheUsage(
        prompt_tokens=prompt_tokens,
        completion_tokens=output if type(output) is int and output >= 0 else None,
        cached_tokens=cached_tokens,
        by_tier=_by_tier(cached_tokens, details, lmcache_tiers),
    )


def _details(value: object) -> _Details | None:
    if not isinstance(value, dict):
        return None
    device, host, storage = value.get("device"), value.get("host"), value.get("storage")
    if storage is None:
        storage = 0
    if type(device) is not int or type(host) is not int or type(storage) is not int:
        return None
    if device < 0 or host < 0 or storage < 0:
        return None
    backend = value.get("storage_backend")
    return _Details(
        device=device,
        host=host,
        storage=storage,
        total=device + host + storage,
        backend=backend if isinstance(backend, str) else None,
    )


def _by_tier(
    cached_tokens: int | None, details: _Details | None, lmcache_tiers: Collection[Tier]
) -> TierTokens:
    if cached_tokens is None:
        return _UNKNOWN_TIERS
    if details is None:
        return _NOTHING_CACHED if cached_tokens == 0 else _UNKNOWN_TIERS
    if details.total != cached_tokens:
        return _UNKNOWN_TIERS
    if details.storage == 0:
        host = details.host
        return TierTokens(gpu=details.device, ram=host, ssd=0, redis=0, storage=host)
    return _with_storage(details, frozenset(lmcache_tiers))


def _with_storage(details: _Details, lmcache_tiers: frozenset[Tier]) -> TierTokens:
    """The split of a request that loaded from the engine's storage backend."""
    below = details.host + details.storage
    tier = _HICACHE_TIERS.get(details.backend or "")
    if details.backend == "LMCache" and len(lmcache_tiers) == 1:
        (tier,) = lmcache_tiers
    if tier is None:
        # A tier that isn't there has served nothing; between those that are, nobody says.
        absent = LMCACHE_TIERS - lmcache_tiers if details.backend == "LMCache" else frozenset()
        known = {name.value: 0 for name in absent}
        return TierTokens(gpu=details.device, storage=below, **known)
    served = {Tier.RAM: details.host, Tier.SSD: 0, Tier.REDIS: 0}
    served[tier] += details.storage
    return TierTokens(
        gpu=details.device,
        ram=served[Tier.RAM],
        ssd=served[Tier.SSD],
        redis=served[Tier.REDIS],
        storage=below,
    )
