"""FW743 to FW747: a Redis for KV forgets, one for state doesn't, and none is both.

Source: redis 7, redis.conf (maxmemory, maxmemory-policy, save, appendonly and their defaults).
"""

from cache.engine_config.deployment import Deployment, RedisRole
from cache.engine_config.found import Found, found, missing
from cache.engine_config.view import Process, Program

_KEEPS = "noeviction"


def redis_findings(deployment: Deployment) -> Found:
    """What a Redis does with what it is given."""
    for redis in deployment.of(Program.REDIS):
        match deployment.role(redis):
            case RedisRole.BOTH:
                yield found("FW747", _BOTH, redis.at)
            case RedisRole.STATE:
                yield from _state(redis)
            case RedisRole.KV:
                yield from _persistent(redis)
                if not _bounded_by_tier(deployment, redis):
                    yield from _evicting(redis)
                    yield from _unbounded(redis)
            case RedisRole.UNKNOWN if (_policy(redis) or _KEEPS) != _KEEPS:
                yield from _unbounded(redis)


_BOTH = (
    "The tiers and another service share this Redis: it must evict for the one and never for the "
    "other; run one with --maxmemory-policy allkeys-lru for KV, and one with noeviction."
)


def _bounded_by_tier(deployment: Deployment, redis: Process) -> bool:
    """Whether LMCache itself keeps what it stores there below a size."""
    stored = deployment.adapters_of(redis)
    return bool(stored) and all(
        adapter.fields.get("max_capacity_gb") and adapter.fields.get("eviction")
        for adapter in stored
    )


def _policy(redis: Process) -> str | None:
    setting = redis.last("maxmemory_policy")
    if setting is not None:
        return setting.text.lower() if setting.known else None
    return _KEEPS if redis.whole else None


def _state(redis: Process) -> Found:
    policy, setting = _policy(redis), redis.last("maxmemory_policy")
    if policy is None or policy == _KEEPS or setting is None:
        return
    yield found(
        "FW743",
        f"With {policy} a full Redis deletes queued requests, locks and limits as if they were a "
        "cache; set maxmemory-policy noeviction.",
        setting,
    )


def _evicting(redis: Process) -> Found:
    policy = _policy(redis)
    if policy is None or policy.startswith("allkeys-"):
        return
    yield missing(
        "FW744",
        f"With {policy} a full Redis refuses new KV and keeps the old for ever, since LMCache's "
        "keys have no time to live; set maxmemory-policy allkeys-lru.",
        redis,
        "maxmemory_policy",
    )


def _persistent(redis: Process) -> Found:
    if redis.on("appendonly"):
        yield missing(
            "FW745",
            f"KV is written to this Redis' log as well, {_COSTS}; set appendonly no.",
            redis,
            "appendonly",
        )
    save = redis.last("save")
    if (save is None and redis.whole) or (save is not None and any(save.values)):
        yield missing(
            "FW745",
            f"KV is written to this Redis' snapshots as well, {_COSTS}; set save to nothing "
            '(--save "").',
            redis,
            "save",
        )


_COSTS = "which costs memory and time for what can be computed again"


def _unbounded(redis: Process) -> Found:
    bound = redis.last("maxmemory")
    if bound is None and not redis.whole:
        return
    if bound is not None and (not bound.known or bound.text.strip("0 ")):
        return
    yield missing(
        "FW746",
        "Without maxmemory Redis never evicts and grows until the machine kills it; set maxmemory "
        "below what the machine can spare.",
        redis,
        "maxmemory",
    )
