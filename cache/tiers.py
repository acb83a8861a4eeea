"""One block of settings for the KV tiers, and what each of its two readers is told.

LMCache's server gets command-line arguments, SGLang a small YAML file and the guard plugin its
environment. Nothing is imported from either: this module only writes what they read.

Source: lmcache 0.5.6, `lmcache server --help`, v1/distributed/l2_adapters/ (fs_native, resp) and
integration/sglang/unified_lmcache_mp_connector.py; deploy/engine-guard/README.md for the serde and
the variables.
"""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from cache.errors import TierSettingsError
from cache.usage import Tier

# The server forgets an engine that was silent for its reap time; it wants three heartbeats in it.
_REAP_S = 120.0
_EVICTION = {"eviction_policy": "LRU", "trigger_watermark": 0.8, "eviction_ratio": 0.2}
_AUTHENTICATED_ENCRYPTION = {"type": "foreword_aead"}


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
        deadline_s: the longest that a request waits for a look-up.
        mq_timeout_s: bounds the engine's other calls to LMCache, such as its registration.
        heartbeat_s: between two signs of life from the engine.
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
    deadline_s: float = 1.0
    mq_timeout_s: float = 3.0
    heartbeat_s: float = 5.0
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
        for name in ("deadline_s", "mq_timeout_s", "heartbeat_s", "breaker_retry_s"):
            _require_positive(name, getattr(self, name))
        _require(
            3 * self.heartbeat_s <= _REAP_S,
            "heartbeat_s",
            self.heartbeat_s,
            f"{_REAP_S / 3} at most",
        )
        _require(self.breaker_failures >= 1, "breaker_failures", self.breaker_failures, "1 or more")

    @property
    def lmcache_tiers(self) -> frozenset[Tier]:
        """The tiers that LMCache can serve from: what `parse_usage` needs to split a load."""
        if not self.enabled:
            return frozenset()
        ssd = {Tier.SSD} if self.ssd_gb is not None else set()
        redis = {Tier.REDIS} if self.redis is not None else set()
        return frozenset({Tier.RAM} | ssd | redis)


def server_arguments(
    tiers: TierSettings,
    *,
    host: str,
    port: int,
    http_port: int,
    prometheus_port: int,
    shm_name: str,
    ssd_path: Path | str | None,
) -> list[str]:
    """The arguments of `lmcache server` (what comes after the word `server`).

    Redis' user and password are not among them, since every user of the machine can read a command
    line: see `server_environment`. LMCache loads from the first adapter that has a chunk, so SSD
    comes before Redis.

    Args:
        shm_name: the shared memory through which a CPU engine gets its KV; keep it over restarts.
        ssd_path: an existing folder for KV files; may be None when there is no SSD tier.

    Raises:
        TierSettingsError: an SSD tier without a folder.
    """
    arguments = [
        *("--host", host, "--port", str(port)),
        *("--http-host", host, "--http-port", str(http_port)),
        *("--prometheus-port", str(prometheus_port)),
        *("--chunk-size", str(tiers.chunk_tokens)),
        *("--l1-size-gb", _number(tiers.ram_gb), "--no-l1-use-lazy"),
        *("--shm-name", shm_name, "--supported-transfer-mode", "auto"),
        *("--eviction-policy", "LRU"),
        *("--worker-reap-timeout-seconds", _number(_REAP_S)),
    ]
    for adapter in _adapters(tiers, ssd_path):
        arguments += ["--l2-adapter", json.dumps(adapter, sort_keys=True)]
    return arguments


def server_environment(tiers: TierSettings) -> dict[str, str]:
    """What the environment of `lmcache server` must hold besides its key file.

    Source: lmcache 0.5.6, v1/distributed/l2_adapters/resp_l2_adapter.py (read where the adapter's
    own fields are empty).
    """
    environment = {"LMCACHE_TRACK_USAGE": "false", "LMCACHE_DISABLE_BANNER": "1"}
    if tiers.redis is not None and tiers.redis.username:
        environment["LMCACHE_RESP_USERNAME"] = tiers.redis.username
    if tiers.redis is not None and tiers.redis.password:
        environment["LMCACHE_RESP_PASSWORD"] = tiers.redis.password
    return environment


def engine_config(tiers: TierSettings, *, host: str, port: int) -> str:
    """The YAML for SGLang's `--lmcache-config-file`. Everything else about tiers is the server's.

    Written as JSON values, which are YAML too, so that no value needs YAML's own quoting.
    """
    extra = {
        "lmcache.mp.mq_timeout": tiers.mq_timeout_s,
        "lmcache.mp.heartbeat_interval": tiers.heartbeat_s,
    }
    lines = [f"mp_host: {json.dumps(host)}", f"mp_port: {port}", "extra_config:"]
    lines += [f"  {json.dumps(name)}: {float(value)!r}" for name, value in extra.items()]
    return "\n".join(lines) + "\n"


def guard_environment(tiers: TierSettings) -> dict[str, str]:
    """The engine's environment: how long the guard waits for the tiers and when it leaves them."""
    return {
        "FOREWORD_TIER_DEADLINE_S": _number(tiers.deadline_s),
        "FOREWORD_TIER_BREAKER_FAILURES": str(tiers.breaker_failures),
        "FOREWORD_TIER_BREAKER_RETRY_S": _number(tiers.breaker_retry_s),
    }


def _adapters(tiers: TierSettings, ssd_path: Path | str | None) -> list[Mapping[str, object]]:
    adapters: list[Mapping[str, object]] = []
    if tiers.ssd_gb is not None:
        if ssd_path is None or not str(ssd_path):
            raise TierSettingsError(
                setting="ssd_path", value=ssd_path, rule="a folder for KV files"
            )
        adapters.append(
            {
                "type": "fs_native",
                "base_path": str(ssd_path),
                **_bounded(tiers.ssd_gb),
                "serde": _AUTHENTICATED_ENCRYPTION,
            }
        )
    if tiers.redis is not None:
        adapters.append(
            {
                "type": "resp",
                "host": tiers.redis.host,
                "port": tiers.redis.port,
                **_bounded(tiers.redis.max_gb),
                "serde": _AUTHENTICATED_ENCRYPTION,
            }
        )
    return adapters


def _bounded(max_gb: float | None) -> dict[str, object]:
    """A size alone bounds nothing in LMCache: without an eviction block the adapter grows on."""
    return {} if max_gb is None else {"max_capacity_gb": max_gb, "eviction": _EVICTION}


def _number(value: float) -> str:
    return f"{value:g}" if float(f"{value:g}") == value else repr(float(value))


def _require(holds: bool, setting: str, value: object, rule: str) -> None:
    if not holds:
        raise TierSettingsError(setting=setting, value=value, rule=rule)


def _require_positive(setting: str, value: float) -> None:
    _require(math.isfinite(value) and value > 0, setting, value, "a finite number above 0")
