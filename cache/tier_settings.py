"""One block of settings for the KV tiers below the GPU."""

import math
from dataclasses import dataclass, field
from enum import StrEnum

from cache.errors import TierSettingsError
from cache.usage import Tier

REAP_S = 120.0
"""The server forgets an engine that was silent for so long; it wants three heartbeats in it."""


def _require(holds: bool, setting: str, value: object, rule: str) -> None:
    if not holds:
        raise TierSettingsError(setting=setting, value=value, rule=rule)


def _require_positive(setting: str, value: float) -> None:
    _require(math.isfinite(value) and value > 0, setting, value, "a finite number above 0")


class WritePolicy(StrEnum):
    """What RAM keeps of a chunk once SSD and Redis have it (`--l2-store-policy`)."""

    KEEP = "default"
    SKIP_RAM = "skip_l1"


class LoadPolicy(StrEnum):
    """What RAM keeps of a chunk that was loaded from SSD or Redis (`--l2-prefetch-policy`)."""

    PASS_THROUGH = "default"
    RETAIN = "retain"


class LossySerde(StrEnum):
    """How KV is made smaller below RAM, at the price of not being quite the same.

    Source of the schemes: lmcache 0.5.6, v1/distributed/serde/ (fp8, asym_k16_v8, turboquant).
    """

    FP8 = "fp8"
    ASYM_K16_V8 = "asym_k16_v8"
    TURBOQUANT_K8V4 = "turboquant_k8v4"
    TURBOQUANT_4BIT = "turboquant_4bit_nc"

    @property
    def needs_head_dim(self) -> bool:
        return self in {LossySerde.TURBOQUANT_K8V4, LossySerde.TURBOQUANT_4BIT}


@dataclass(frozen=True, slots=True, kw_only=True)
class Eviction:
    """When a tier makes room, and what goes first.

    Args:
        policy: `LRU` or `ARC`; `noop` never evicts.
        watermark: share of the size at which it begins, above 0 and at most 1.
        ratio: share of what is held that goes each time.
    """

    policy: str = "LRU"
    watermark: float = 0.8
    ratio: float = 0.2

    def __post_init__(self) -> None:
        _require(
            self.policy in {"LRU", "ARC", "noop"},
            "eviction.policy",
            self.policy,
            "LRU, ARC or noop (IsolatedLRU drops all KV of each salt that has no quota, and "
            "Foreword sets none)",
        )
        for name in ("watermark", "ratio"):
            share = getattr(self, name)
            _require(0 < share <= 1, f"eviction.{name}", share, "above 0 and at most 1")


@dataclass(frozen=True, slots=True, kw_only=True)
class RedisTier:
    """A Redis that holds KV and nothing else; its own eviction policy may drop any key.

    `max_gb` None leaves the bound to Redis' `maxmemory`.
    """

    host: str
    port: int
    username: str = ""
    password: str = field(default="", repr=False)
    max_gb: float | None = None

    def __post_init__(self) -> None:
        _require(bool(self.host), "redis.host", self.host, "a host name or address")
        _require(0 < self.port < 65536, "redis.port", self.port, "a port, 1 to 65535")
        if self.max_gb is not None:
            _require_positive("redis.max_gb", self.max_gb)


@dataclass(frozen=True, slots=True, kw_only=True)
class TierSettings:
    """The tiers below the GPU: RAM always, SSD and Redis if they are given.

    Sizes are in GiB (as LMCache counts them), times in seconds.

    Args:
        chunk_tokens: LMCache's unit; a prompt re-uses whole chunks from a tier.
        page_tokens: SGLang's `--page-size`, which must divide `chunk_tokens`.
        eviction: of RAM and SSD, and of Redis where `max_gb` bounds it.
        write_policy, load_policy: what RAM keeps.
        serde: None keeps KV exactly as it is; a lossy one is the operator's choice.
        head_dim: of the model's attention; needed for `turboquant`.
        deadline_s: the longest that a request waits for a look-up, loads into RAM included.
        mq_timeout_s: bounds the engine's other calls to LMCache, such as its registration.
        heartbeat_s: between two signs of life from the engine.
        start_wait_s: how long a starting engine waits for the tier server, before it starts
            without.
        breaker_failures, breaker_retry_s: failures in a row after which the tiers are left alone,
            and the time between the guard's probes.

    Raises:
        TierSettingsError: a value that LMCache, SGLang or the guard would refuse or misread.
    """

    enabled: bool = True
    chunk_tokens: int = 64
    page_tokens: int = 16
    ram_gb: float = 1.0
    ssd_gb: float | None = 2.0
    redis: RedisTier | None = None
    eviction: Eviction = Eviction()
    write_policy: WritePolicy = WritePolicy.KEEP
    load_policy: LoadPolicy = LoadPolicy.PASS_THROUGH
    serde: LossySerde | None = None
    head_dim: int | None = None
    deadline_s: float = 1.0
    mq_timeout_s: float = 3.0
    heartbeat_s: float = 5.0
    start_wait_s: float = 30.0
    breaker_failures: int = 1
    breaker_retry_s: float = 5.0

    def __post_init__(self) -> None:
        _require(self.page_tokens >= 1, "page_tokens", self.page_tokens, "1 or more")
        _require(
            self.chunk_tokens >= 1 and self.chunk_tokens % self.page_tokens == 0,
            "chunk_tokens",
            self.chunk_tokens,
            f"a positive multiple of the engine's page size, {self.page_tokens}",
        )
        _require_positive("ram_gb", self.ram_gb)
        if self.ssd_gb is not None:
            _require_positive("ssd_gb", self.ssd_gb)
        self._check_policies()
        self._check_times()

    @property
    def lmcache_tiers(self) -> frozenset[Tier]:
        """The tiers that LMCache can serve from: what `parse_usage` needs to split a load."""
        if not self.enabled:
            return frozenset()
        ssd = {Tier.SSD} if self.ssd_gb is not None else set()
        redis = {Tier.REDIS} if self.redis is not None else set()
        return frozenset({Tier.RAM} | ssd | redis)

    def _check_policies(self) -> None:
        skips = self.write_policy is WritePolicy.SKIP_RAM
        below = self.ssd_gb is not None or self.redis is not None
        _require(
            not skips or below,
            "write_policy",
            self.write_policy.value,
            "default without SSD or Redis",
        )
        _require(
            self.eviction.policy != "noop" or skips,
            "eviction.policy",
            self.eviction.policy,
            "LRU or ARC, since what isn't written through (write_policy skip_l1) fills RAM up",
        )
        if self.serde is not None and self.serde.needs_head_dim:
            power = self.head_dim is not None and self.head_dim > 0
            power = power and self.head_dim & (self.head_dim - 1) == 0  # type: ignore[operator]
            _require(power, "head_dim", self.head_dim, f"a power of two for {self.serde.value}")

    def _check_times(self) -> None:
        for name in (
            "deadline_s",
            "mq_timeout_s",
            "heartbeat_s",
            "start_wait_s",
            "breaker_retry_s",
        ):
            _require_positive(name, getattr(self, name))
        _require(
            3 * self.heartbeat_s <= REAP_S,
            "heartbeat_s",
            self.heartbeat_s,
            f"{REAP_S / 3} at most",
        )
        _require(self.breaker_failures >= 1, "breaker_failures", self.breaker_failures, "1 or more")
