"""Chunks that were reserved and never written are dropped, not published.

`prepare_store` reserves a chunk's memory and the engine fills it; when the engine gave up on the
answer (it was late), nobody fills it. LMCache 0.5.6 then publishes it all the same as soon as the
engine's registration goes, by `unregister`, by reaping, or by registering again
(lmcache/v1/multiprocess/modules/engine_driven_transfer.py:218, `_release_entry`): what the memory
held before, perhaps another tenant's KV, would be served under the chunk's key.
"""

import functools
from typing import Any


def install() -> None:
    """Put it into LMCache's engine-driven transfer module, in place."""
    from lmcache.v1.distributed.storage_manager import _L1_WRITE_TAG
    from lmcache.v1.multiprocess.modules.engine_driven_transfer import EngineDrivenTransferModule

    release = EngineDrivenTransferModule._release_entry

    @functools.wraps(release)
    def release_without_publishing(self: Any, instance_id: int, entry: Any) -> None:
        with self._pending_shm_lock:
            unwritten = [key for key in self._pending_shm_writes if key[0] == instance_id]
            reserved = [self._pending_shm_writes.pop(key) for key in unwritten]
        for manager in self._ctx.storage_manager._write_managers:
            for keys in reserved:
                manager.finish_write_and_delete(keys, tag=_L1_WRITE_TAG)
        release(self, instance_id, entry)

    EngineDrivenTransferModule._release_entry = release_without_publishing
