"""What one tier server knows about itself: its adapters, its loads, its salts."""

import time
from collections.abc import Iterable, Mapping
from typing import Any

from foreword_guard.adapter_health import AdapterHealth, AdapterState, Switch
from foreword_guard.adapter_parts import AdapterParts
from foreword_guard.adapter_settings import AdapterSettings
from foreword_guard.counters import AdapterCounters, RamCounters
from foreword_guard.guarded_adapter import GuardedAdapter
from foreword_guard.loads import RAM, LoadRecords
from foreword_guard.salt_key_files import KEPT_S
from foreword_guard.salt_keys import SaltKeys

# Foreword's names for LMCache's types of adapters; any other keeps its own.
_TIER_NAMES = {"fs": "ssd", "fs_native": "ssd", "raw_block": "ssd", "resp": "redis"}
_TIER_NAMES |= {"valkey": "redis"}


class UnknownAdapterError(LookupError):
    """There is no adapter of that name."""


class TierState:
    """Made once for each process, before LMCache starts.

    Args:
        instance: another one after each start.
        settings: deadlines of each adapter.
        keys: the salts' keys; None when no adapter keeps anything.
        missing: adapters that were left out at the start, by LMCache's type, and why.
    """

    def __init__(
        self,
        *,
        instance: str,
        settings: AdapterSettings,
        keys: SaltKeys | None,
        missing: Mapping[str, str],
    ) -> None:
        self.instance = instance
        self.keys = keys
        self.records = LoadRecords()
        self.ram = RamCounters()
        self.chunk_tokens = 0
        self.chunk_bytes: int | None = None
        self._settings = settings
        self._adapters: dict[str, GuardedAdapter] = {}
        self._forgotten: dict[str, float] = {}
        self._missing = {_TIER_NAMES.get(kind, kind): why for kind, why in missing.items()}

    def guard_adapter(self, inner: Any, serde: Any, l1_manager: Any) -> GuardedAdapter:
        """What LMCache calls to put a serde around an adapter."""
        parts = AdapterParts(
            inner=inner,
            settings=self._settings,
            health=AdapterHealth(retry_s=self._settings.retry_s, clock=time.monotonic),
            counters=AdapterCounters(),
        )
        return GuardedAdapter(parts, serde, l1_manager, named=self._named)

    def name_of(self, adapter: Any) -> str | None:
        """The name of one of LMCache's adapters; None for one that isn't guarded."""
        return adapter.parts.name if isinstance(adapter, GuardedAdapter) else None

    def switch(self, name: str, switch: Switch) -> None:
        """Use an adapter for look-ups and loads, or don't.

        Raises:
            UnknownAdapterError: there is none of that name.
        """
        adapter = self._adapters.get(name)
        if adapter is None:
            raise UnknownAdapterError(name)
        adapter.parts.health.set_switch(switch)

    def is_destroyed(self, salt: str) -> bool:
        """Whether nothing may be kept under the salt any more."""
        if salt in self._forgotten:
            return True
        return self.keys is not None and self.keys.is_destroyed(salt)

    def destroy_salt(self, salt: str) -> None:
        """Nothing is kept or served under the salt from now on.

        Raises:
            SaltKeyError: its key couldn't be removed from the disk.
        """
        now_s = time.monotonic()
        kept = {old: at for old, at in self._forgotten.items() if now_s - at < KEPT_S}
        self._forgotten = kept | {salt: now_s}
        if self.keys is not None:
            self.keys.destroy(salt)

    def status(self, *, used_bytes: int, capacity_bytes: int) -> Mapping[str, object]:
        """As the status route shows it.

        Args:
            used_bytes, capacity_bytes: of RAM.
        """
        keys, destroyed = (0, len(self._forgotten)) if self.keys is None else self.keys.counts()
        return {
            "instance": self.instance,
            "chunk_tokens": self.chunk_tokens,
            "chunk_bytes": self.chunk_bytes,
            "ram": {
                "used_bytes": used_bytes,
                "capacity_bytes": capacity_bytes,
                "loads": self.ram.loads(),
            },
            "adapters": [
                *(_adapter_status(each) for each in self._adapters.values()),
                *(_missing_status(name, why) for name, why in self._missing.items()),
            ],
            "evictions": {
                name: self.ram.evictions().get(name, 0) for name in (RAM, *self._adapters)
            },
            "salts": {"keys": keys, "destroyed": destroyed},
        }

    def load_of(self, request_id: str, *, held_tokens: int) -> Mapping[str, object] | None:
        """Which tier served a request's load, as the route shows it; None where it isn't known."""
        runs = self.records.runs(
            request_id, chunk_tokens=self.chunk_tokens, held_tokens=held_tokens
        )
        if not runs:
            return None
        totals = dict.fromkeys((RAM, "ssd", "redis"), 0)
        for run in runs:
            totals[run.tier] = totals.get(run.tier, 0) + run.stop - run.start
        return {
            "start": runs[0].start,
            "stop": runs[-1].stop,
            "runs": [{"tier": run.tier, "start": run.start, "stop": run.stop} for run in runs],
            **totals,
        }

    def _named(self, adapter: GuardedAdapter, lmcache_type: str) -> None:
        wanted = _TIER_NAMES.get(lmcache_type, lmcache_type)
        adapter.parts.name = _unused(wanted, self._adapters)
        self._adapters[adapter.parts.name] = adapter


def _unused(wanted: str, taken: Iterable[str]) -> str:
    """`ssd`, `ssd-2`, …"""
    used = set(taken)
    names = (wanted if number == 1 else f"{wanted}-{number}" for number in range(1, len(used) + 2))
    return next(name for name in names if name not in used)


def _missing_status(name: str, reason: str) -> Mapping[str, object]:
    return {
        "name": name,
        "enabled": True,
        "state": str(AdapterState.FAILING),
        "reason": reason,
        **AdapterCounters().snapshot(),
        "used_bytes": 0,
        "capacity_bytes": 0,
    }


def _adapter_status(adapter: GuardedAdapter) -> Mapping[str, object]:
    usage, parts = adapter.get_usage(), adapter.parts
    return {
        "name": parts.name,
        "enabled": parts.health.switch.enabled,
        "state": str(parts.health.state),
        "reason": parts.health.reason,
        **parts.counters.snapshot(),
        "used_bytes": usage.total_bytes_used,
        "capacity_bytes": usage.total_capacity_bytes,
    }
