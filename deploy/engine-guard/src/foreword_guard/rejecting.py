"""An L2 adapter that never serves what it can't authenticate, and deletes it.

Stands in for `SerdeL2AdapterWrapper` (lmcache/v1/distributed/l2_adapters/serde_wrapper.py, 0.5.6):
its `_drain_deserialize` (:562) fails a load as a whole when one chunk fails and leaves the chunk
where it is, so that the prefix is lost until somebody deletes the file. Here the good chunks are
reported as loaded, the bad ones as missing: the engine gets the shorter prefix up to the first bad
chunk and computes the rest, which is then stored anew.

An object that a file adapter lists but can't read in full (cut short) is deleted too. With Redis,
a key that wasn't read may be on the other side of a broken connection, so it stays; values of
another length are deleted where they are read (resp.py).
"""

import logging
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from lmcache.lmcache_native import Bitmap
from lmcache.v1.distributed.api import ObjectKey
from lmcache.v1.distributed.l2_adapters.serde_wrapper import SerdeL2AdapterWrapper

from foreword_guard.redis_store import RedisStore
from foreword_guard.sealing import SealingProcessor

logger = logging.getLogger("foreword_guard")


class RejectingAdapter(SerdeL2AdapterWrapper):  # type: ignore[misc]
    """LMCache's serde wrapper for adapters with the serde `foreword_aead`."""

    def __init__(self, inner: Any, serde: Any, l1_manager: Any) -> None:
        # Deleting waits for the store behind the adapter (up to 30 s with a dead Redis), which
        # must not hold up the loads that the wrapper's own thread serves.
        self._deleter = ThreadPoolExecutor(max_workers=1, thread_name_prefix="foreword-delete")
        super().__init__(inner, serde, l1_manager)

    def close(self) -> None:
        self._deleter.shutdown(wait=False, cancel_futures=True)
        super().close()

    def _drain_deserialize(self) -> None:
        if not isinstance(self._serde, SealingProcessor):
            super()._drain_deserialize()
            return
        with self._lock:
            pending = list(self._serde_to_load)
        for serde_id in pending:
            finished = self._serde.query_deserialize_result(serde_id)
            if finished is None:
                continue
            rejected = self._serde.take_rejected(serde_id)
            with self._lock:
                wrapped_id = self._serde_to_load.pop(serde_id, None)
                state = self._load_tasks.get(wrapped_id)
            if state is not None:
                self._finish_load(wrapped_id, state, rejected)

    def _finish_load(self, wrapped_id: int, state: Any, rejected: list[ObjectKey]) -> None:
        served = Bitmap(len(state.keys))
        for index, key in enumerate(state.keys):
            if state.load_bitmap.test(index) and key not in rejected:
                served.set(index)
        self._delete(rejected, self._unreadable(state, state.load_bitmap))
        self._release_write_temps(state.temp_keys)
        super()._finalize_load(wrapped_id, served)

    def _finalize_load(self, wrapped_id: int, bitmap: Bitmap) -> None:
        """Also called by the parent for a load of which not one object was read."""
        with self._lock:
            state = self._load_tasks.get(wrapped_id)
        if state is not None and not state.load_bitmap.popcount():
            self._delete([], self._unreadable(state, bitmap))
        super()._finalize_load(wrapped_id, bitmap)

    def _unreadable(self, state: Any, read: Bitmap) -> list[ObjectKey]:
        if isinstance(getattr(self._inner, "_client", None), RedisStore):
            return []
        return [key for index, key in enumerate(state.keys) if not read.test(index)]

    def _delete(self, rejected: list[ObjectKey], unreadable: list[ObjectKey]) -> None:
        if not rejected and not unreadable:
            return
        logger.error(
            "foreword_guard: %d stored chunks didn't authenticate and %d couldn't be read; "
            "they are deleted and computed anew",
            len(rejected),
            len(unreadable),
        )
        self._deleter.submit(self._inner.delete, rejected + unreadable)
