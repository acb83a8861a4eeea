"""Processes that belong together, from one file or several: who talks to whom."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from cache.engine_config.view import Adapter, Process, Program, adapters, is_loopback

_TIER_PORT = 5555
_REDIS_PORT = 6379
_REDIS_ADAPTERS = ("resp", "valkey")
_REDIS_URL = re.compile(r"(?:rediss?|valkey)://(?:[^@/]*@)?([^:/]+)(?::([0-9]{1,5}))?")
_KV_NAME = re.compile(r"(^|[-_.])(kv|lmcache)([-_.]|$)")
_STATE_NAME = re.compile(r"(^|[-_.])(state|session|sessions|queue|lock|locks|celery)([-_.]|$)")


class RedisRole(StrEnum):
    """What a Redis is for."""

    KV = "KV"
    STATE = "state"
    BOTH = "both"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """An engine with LMCache, its tier server and what it was told of it, as far as known."""

    engine: Process
    tier: Process | None
    client: Process | None

    @property
    def on_cpu(self) -> bool:
        """Whether the engine computes on the CPU."""
        variable = self.engine.environment.get("SGLANG_USE_CPU_ENGINE")
        return self.engine.text("device") == "cpu" or (
            variable is not None and variable.text == "1"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployment:
    """All processes that were read."""

    processes: tuple[Process, ...]

    def of(self, program: Program) -> list[Process]:
        """Those of one program."""
        return [process for process in self.processes if process.program is program]

    @property
    def pairs(self) -> Iterator[Pair]:
        """Every engine that uses LMCache, with its tier."""
        for engine in self.of(Program.ENGINE):
            if engine.on("enable_lmcache"):
                client = self._client(engine)
                yield Pair(engine=engine, tier=self._tier(client), client=client)

    def role(self, redis: Process) -> RedisRole:
        """What a Redis is for: by who talks to it, else by its name or its own settings."""
        kv = bool(self.adapters_of(redis))
        state = any(self._names(process, redis) for process in self.of(Program.OTHER))
        if kv and state:
            return RedisRole.BOTH
        if kv or state:
            return RedisRole.KV if kv else RedisRole.STATE
        return _role_by_name(redis)

    def adapters_of(self, redis: Process) -> list[Adapter]:
        """The tiers' adapters that address a Redis."""
        return [
            adapter
            for tier in self.of(Program.TIER)
            for adapter in adapters(tier)
            if adapter.kind in _REDIS_ADAPTERS and _reaches(tier, adapter, redis)
        ]

    def _names(self, process: Process, redis: Process) -> bool:
        """Whether a variable of a process holds the address of a Redis."""
        urls = (_REDIS_URL.match(setting.text) for setting in process.environment.values())
        return any(
            _is_at(redis, url[1], int(url[2] or _REDIS_PORT), process) for url in urls if url
        )

    def _client(self, engine: Process) -> Process | None:
        """LMCache's settings for an engine: the file that it names, or the only one."""
        clients = self.of(Program.TIER_CLIENT)
        name = engine.text("lmcache_config_file").rpartition("/")[2]
        named = [client for client in clients if client.at.source.path.name == name]
        chosen = named or clients
        return chosen[0] if len(chosen) == 1 else None

    def _tier(self, client: Process | None) -> Process | None:
        tiers = self.of(Program.TIER)
        if len(tiers) > 1 and client is not None:
            port = client.number("mp_port", _TIER_PORT)
            tiers = [tier for tier in tiers if tier.number("port", _TIER_PORT) == port]
        return tiers[0] if len(tiers) == 1 else None


def _reaches(tier: Process, adapter: Adapter, redis: Process) -> bool:
    host, port = adapter.fields.get("host"), adapter.fields.get("port", _REDIS_PORT)
    return isinstance(host, str) and _is_at(redis, host, port, tier)


def _is_at(redis: Process, host: str, port: object, caller: Process) -> bool:
    """Whether a Redis listens where a caller looks for it."""
    if redis.number("port", _REDIS_PORT) not in (port, None):
        return False
    if redis.container is not None and not redis.container.host_network:
        return host in redis.container.aliases and not _another_pod(redis, host, caller)
    return is_loopback(host) and (caller.container is None or caller.container.host_network)


def _another_pod(redis: Process, host: str, caller: Process) -> bool:
    """Whether a loopback address means the caller's own pod, which the Redis is not in."""
    if not is_loopback(host) or redis.container is None:
        return False
    return caller.container is None or caller.container.ipc != redis.container.ipc


def _role_by_name(redis: Process) -> RedisRole:
    names: Sequence[str] = sorted(redis.container.aliases) if redis.container is not None else ()
    if any(_STATE_NAME.search(name) for name in names) or redis.on("appendonly"):
        return RedisRole.STATE
    if any(_KV_NAME.search(name) for name in names):
        return RedisRole.KV
    return RedisRole.UNKNOWN
