"""How many tokens each tier below the GPU holds.

LMCache keeps one object for each whole chunk and rank. In RAM it begins at a multiple of 4 KiB; on
SSD and in Redis encryption adds a version, a nonce and a tag.

Source: lmcache 0.5.6, v1/distributed/config.py (`align_bytes`, `--eviction-trigger-watermark`);
deploy/engine-guard/src/foreword_guard/sealing.py for the bytes that are added.
"""

from dataclasses import dataclass

from cache.tiers import Eviction, TierSettings
from cache.usage import Tier

SEAL_BYTES = 29
_ALIGN_BYTES = 4096
# LMCache evicts from here down to a lower mark, so that only this much stays for sure.
FULL_AT = Eviction().watermark


@dataclass(frozen=True, slots=True, kw_only=True)
class TierCapacity:
    """One tier.

    Attributes:
        tokens: before the first eviction, in whole chunks; None without a bound.
        full_at: share of the capacity at which LMCache begins to evict.
        chunk_bytes: what one chunk of all ranks takes here.
    """

    tier: Tier
    capacity_bytes: int | None
    full_at: float
    chunk_bytes: int
    chunk_tokens: int
    tokens: int | None


def tier_capacities(
    tiers: TierSettings, *, bytes_per_token: int, objects: int = 1
) -> tuple[TierCapacity, ...]:
    """What each tier of a settings block holds, of KV as it is: a lossy serde fits more.

    Args:
        bytes_per_token: KV of one token on one rank.
        objects: objects for one chunk: the tensor-parallel ranks, or 1 with latent attention.
    """
    size = bytes_per_token * tiers.chunk_tokens
    aligned = -(-size // _ALIGN_BYTES) * _ALIGN_BYTES
    found = [_capacity(Tier.RAM, tiers, tiers.ram_gb, aligned * objects)]
    if tiers.ssd_gb is not None:
        found.append(_capacity(Tier.SSD, tiers, tiers.ssd_gb, (size + SEAL_BYTES) * objects))
    if tiers.redis is not None:
        sealed = (size + SEAL_BYTES) * objects
        found.append(_capacity(Tier.REDIS, tiers, tiers.redis.max_gb, sealed))
    return tuple(found)


def _capacity(tier: Tier, tiers: TierSettings, gib: float | None, chunk_bytes: int) -> TierCapacity:
    capacity = None if gib is None else int(gib * 2**30)
    full_at = tiers.eviction.watermark
    chunks = None if capacity is None else int(capacity * full_at) // chunk_bytes
    return TierCapacity(
        tier=tier,
        capacity_bytes=capacity,
        full_at=full_at,
        chunk_bytes=chunk_bytes,
        chunk_tokens=tiers.chunk_tokens,
        tokens=None if chunks is None else chunks * tiers.chunk_tokens,
    )
