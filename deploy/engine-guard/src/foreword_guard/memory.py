"""Refuses a registration that gives the tier something else than the engine's KV pool.

LMCache's lmcache_driven mode on a CPU moves the registered tensors to shared memory
(lmcache/v1/platform/devices/cpu/shm.py:293, 0.5.6, "only the tensors handed in are re-pointed").
SGLang's connector hands in views, so the pool that SGLang computes on stays where it was: loads
are written beside it, look-ups hit, and the answers are wrong without a word in the log.
"""

from typing import Any

from foreword_guard.errors import ForeignMemoryError


def require_own_memory(connector: Any) -> None:
    """Raise unless each registered tensor starts where a tensor of the KV pool starts.

    Raises:
        ForeignMemoryError: some don't.
    """
    groups = connector._sglang_kv_adapter.resolve_registered_groups()
    own = {tensor.data_ptr() for group in groups for tensor in group.kv_tensors}
    foreign = [t for t in connector._kv_caches.values() if t.data_ptr() not in own]
    if foreign:
        raise ForeignMemoryError(len(foreign))
