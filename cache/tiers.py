"""What each reader of the tiers' settings is told.

LMCache's server gets command-line arguments, SGLang a small YAML file and the guard plugin its
environment. Nothing is imported from either: this module only writes what they read.

Source: lmcache 0.5.6, `lmcache server --help`, v1/distributed/l2_adapters/ (fs_native, resp) and
integration/sglang/unified_lmcache_mp_connector.py; deploy/engine-guard/README.md for the serde and
the variables.
"""

import json
from collections.abc import Mapping
from pathlib import Path

from cache.errors import TierSettingsError
from cache.tier_settings import (
    REAP_S,
    Eviction,
    LoadPolicy,
    LossySerde,
    RedisTier,
    TierSettings,
    WritePolicy,
)

__all__ = [
    "Eviction",
    "LoadPolicy",
    "LossySerde",
    "RedisTier",
    "TierSettings",
    "WritePolicy",
    "engine_config",
    "guard_environment",
    "server_arguments",
    "server_environment",
]

# Shares of a request's deadline: all adapters are asked at once, and then loaded from at once. What
# is left over is for the rest of the way.
_LOOKUP_SHARE = 0.3
_LOAD_SHARE = 0.6


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
        *("--eviction-policy", tiers.eviction.policy),
        *("--eviction-trigger-watermark", _number(tiers.eviction.watermark)),
        *("--eviction-ratio", _number(tiers.eviction.ratio)),
        *("--l2-store-policy", tiers.write_policy.value),
        *("--l2-prefetch-policy", tiers.load_policy.value),
        *("--worker-reap-timeout-seconds", _number(REAP_S)),
    ]
    for adapter in _adapters(tiers, ssd_path):
        arguments += ["--l2-adapter", json.dumps(adapter, sort_keys=True)]
    return arguments


def server_environment(tiers: TierSettings) -> dict[str, str]:
    """What the environment of `lmcache server` must hold besides its key file.

    Each adapter's look-up and load have a deadline of their own, together shorter than a request's:
    one that is late must not keep the others' chunks from it.

    Source: lmcache 0.5.6, v1/distributed/l2_adapters/resp_l2_adapter.py (read where the adapter's
    own fields are empty).
    """
    environment = {
        "LMCACHE_TRACK_USAGE": "false",
        "LMCACHE_DISABLE_BANNER": "1",
        "FOREWORD_ADAPTER_LOOKUP_S": _number(_LOOKUP_SHARE * tiers.deadline_s),
        "FOREWORD_ADAPTER_LOAD_S": _number(_LOAD_SHARE * tiers.deadline_s),
    }
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
        "FOREWORD_TIER_CHUNK_TOKENS": str(tiers.chunk_tokens),
        "FOREWORD_TIER_START_WAIT_S": _number(tiers.start_wait_s),
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
                **_bounded(tiers.ssd_gb, tiers.eviction),
                "serde": _serde(tiers),
            }
        )
    if tiers.redis is not None:
        adapters.append(
            {
                "type": "resp",
                "host": tiers.redis.host,
                "port": tiers.redis.port,
                **_bounded(tiers.redis.max_gb, tiers.eviction),
                "serde": _serde(tiers),
            }
        )
    return adapters


def _serde(tiers: TierSettings) -> dict[str, object]:
    """Authenticated encryption always; a lossy serde, if one is asked for, below it."""
    sealed: dict[str, object] = {"type": "foreword_aead"}
    if tiers.serde is not None:
        sealed["inner"] = tiers.serde.value
        if tiers.serde.needs_head_dim:
            sealed["head_dim"] = tiers.head_dim
    return sealed


def _bounded(max_gb: float | None, eviction: Eviction) -> dict[str, object]:
    """A size alone bounds nothing in LMCache: without an eviction block the adapter grows on.

    What evicts nothing in RAM (it is written through) still needs it on the disk.
    """
    if max_gb is None:
        return {}
    policy = "LRU" if eviction.policy == "noop" else eviction.policy
    block = {
        "eviction_policy": policy,
        "trigger_watermark": eviction.watermark,
        "eviction_ratio": eviction.ratio,
    }
    return {"max_capacity_gb": max_gb, "eviction": block}


def _number(value: float) -> str:
    return f"{value:g}" if float(f"{value:g}") == value else repr(float(value))
