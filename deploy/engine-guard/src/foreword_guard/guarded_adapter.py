"""An L2 adapter that is never waited for longer than its deadline, and serves nothing unchecked.

Stands in for `SerdeL2AdapterWrapper` (lmcache/v1/distributed/l2_adapters/serde_wrapper.py, 0.5.6),
around each adapter with the serde `foreword_aead`. LMCache waits for every adapter's look-up before
it loads from any, and for all loads before a request goes on, so one slow adapter holds all of them
up. Here one that is late (adapter_lookups.py, adapter_loads.py) or broken is left alone until a
probe, for which nobody waits, is answered in time. Stores that fail are tried again after a pause,
and no more of them wait in RAM than fits a quarter of it.
"""

import logging
import select
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from lmcache.lmcache_native import Bitmap
from lmcache.v1.distributed.api import MemoryLayoutDesc, ObjectKey
from lmcache.v1.distributed.l2_adapters.serde_wrapper import (
    SerdeL2AdapterWrapper,
    _StorePhase,
    _StoreTaskState,
)
from lmcache.v1.platform import consume_fd, create_event_notifier

from foreword_guard.adapter_loads import AdapterLoads
from foreword_guard.adapter_lookups import AdapterLookups
from foreword_guard.adapter_parts import AdapterParts
from foreword_guard.redis_store import RedisStore
from foreword_guard.sealing import SealingProcessor
from foreword_guard.stopwatch import STEP_S, Stopwatch

logger = logging.getLogger("foreword_guard")

_IDLE_PAUSE_MS = 500
_WATCHING_PAUSE_MS = int(STEP_S * 500)
_BACKLOG_SHARE = 0.25


@dataclass
class _Store(_StoreTaskState):  # type: ignore[misc]
    """A store; `size_bytes` of RAM wait for it, and `seal` is its task of the serde."""

    size_bytes: int = 0
    seal: int = -1
    watch: Stopwatch = field(default_factory=Stopwatch)


class GuardedAdapter(SerdeL2AdapterWrapper):  # type: ignore[misc]
    """One adapter.

    Args:
        parts: whether it is used, and what it counts.
        serde: seals and opens.
        l1_manager: RAM.
        named: told the adapter's type, once LMCache has said it.
    """

    def __init__(
        self,
        parts: AdapterParts,
        serde: SealingProcessor,
        l1_manager: Any,
        *,
        named: Callable[["GuardedAdapter", str], None],
    ) -> None:
        self.parts = parts
        self._named = named
        self._backlog_bytes = 0
        self._wake_efd = create_event_notifier()
        client = getattr(parts.inner, "_client", None)
        if isinstance(client, RedisStore):
            client.on_failure = parts.client_failed
        self._lookups = AdapterLookups(parts)
        self._loads = AdapterLoads(
            parts,
            sealing=serde,
            l1_manager=l1_manager,
            allocate=self._alloc_temp_buffers,
            release=self._release_write_temps,
            may_be_cut_off=isinstance(client, RedisStore),
        )
        super().__init__(parts.inner, serde, l1_manager)

    def set_backend_identity(self, name: str, shared: bool = False) -> None:
        self._named(self, name)
        super().set_backend_identity(name, shared)

    def close(self) -> None:
        self._loads.stop_deleting()
        super().close()
        self._loads.close()
        self._lookups.close()
        self._wake_efd.close()

    # Look-ups and loads

    def get_lookup_and_lock_event_fd(self) -> int:
        return self._lookups.fileno()

    def get_load_event_fd(self) -> int:
        return self._loads.fileno()

    def submit_lookup_and_lock_task(
        self, keys: list[ObjectKey], group_layout_descs: dict[int, MemoryLayoutDesc]
    ) -> int:
        task_id = self._lookups.submit(keys, group_layout_descs)
        self._wake_efd.notify()
        return task_id

    def query_lookup_and_lock_result(self, task_id: int) -> Bitmap | None:
        return self._lookups.result(task_id)

    def submit_load_task(self, keys: list[ObjectKey], objects: list[Any]) -> int:
        task_id = self._loads.submit(keys, objects)
        self._wake_efd.notify()
        return task_id

    def query_load_result(self, task_id: int) -> Bitmap | None:
        return self._loads.result(task_id)

    # Stores

    def submit_store_task(self, keys: list[ObjectKey], objects: list[Any]) -> int:
        with self._lock:
            task_id: int = self._next_task_id
            self._next_task_id += 1
        size_bytes = sum(each.get_size() for each in objects)
        if not self._has_room(size_bytes) or not self.parts.health.may_store():
            return self._skip_store(task_id, keys)
        temp_keys, temp_objs = self._alloc_temp_buffers(keys, objects)
        if temp_objs is None:
            return self._skip_store(task_id, keys)
        store = _Store(
            wrapped_id=task_id,
            keys=list(keys),
            temp_keys=temp_keys,
            temp_objs=temp_objs,
            phase=_StorePhase.SERIALIZE,
            size_bytes=size_bytes,
        )
        with self._lock:
            self._backlog_bytes += size_bytes
            self._store_tasks[task_id] = store
            serde_id = self._serde.submit_serialize(objects, temp_objs, store.keys)
            store.seal = serde_id
            self._serde_to_store[serde_id] = task_id
        return task_id

    def _has_room(self, size_bytes: int) -> bool:
        """Stores hold their chunks in RAM until they are done; a slow one must not fill it."""
        _, capacity_bytes = self._l1_manager.get_memory_usage()
        return bool(self._backlog_bytes + size_bytes <= _BACKLOG_SHARE * capacity_bytes)

    def _skip_store(self, task_id: int, keys: Sequence[ObjectKey]) -> int:
        self.parts.counters.store_skipped(len(keys))
        super()._finalize_store(task_id, False)
        return task_id

    def _finalize_store(self, wrapped_id: int, success: bool, bytes_transferred: int = 0) -> None:
        with self._lock:
            store: _Store = self._store_tasks[wrapped_id]
            self._backlog_bytes -= store.size_bytes
        self.parts.counters.store(
            store.watch.elapsed_s,
            chunks=len(store.keys),
            size_bytes=store.size_bytes,
            done=success,
        )
        if success:
            self.parts.health.stored_well()
            self.parts.health.sealed_well()
        elif store.phase is _StorePhase.INNER_STORE:
            self.parts.storing_failed("chunks couldn't be written")
        elif (problem := self._serde.take_problem(store.seal)) is not None:
            self.parts.sealing_failed(problem)
        super()._finalize_store(wrapped_id, success, bytes_transferred)

    # The thread

    def _loop(self) -> None:
        drains: dict[int, Callable[[], object]] = {
            self._serde.get_serialize_event_fd(): self._drain_serialize,
            self._serde.get_deserialize_event_fd(): self._loads.drain_opened,
            self._inner.get_store_event_fd(): self._drain_inner_store,
            self._inner.get_load_event_fd(): self._loads.drain_read,
            self._inner.get_lookup_and_lock_event_fd(): self._lookups.drain,
            self._wake_efd.fileno(): lambda: None,
        }
        tending = (
            self._lookups.give_up,
            self._loads.give_up,
            self._loads.keep_buffers,
            self._lookups.probe_if_due,
        )
        poller = select.poll()
        for descriptor in drains:
            poller.register(descriptor, select.POLLIN)
        while not self._stop_flag.is_set():
            for descriptor, _ in poller.poll(self._pause_ms()):
                consume_fd(descriptor)
                self._guarded(drains[descriptor])
            for tend in tending:
                self._guarded(tend)

    def _pause_ms(self) -> int:
        waiting = self._lookups.waiting() or self._loads.waiting()
        return _WATCHING_PAUSE_MS if waiting else _IDLE_PAUSE_MS

    def _guarded(self, step: Callable[[], object]) -> None:
        """All requests need this thread: what one step raises is logged, as LMCache's loop does."""
        try:
            step()
        except Exception:
            logger.exception("foreword_guard: a step of %s failed", self.parts.label)
