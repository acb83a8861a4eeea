"""Where LMCache is asked which tier a load came from, and told what may not be kept.

Stands in for these lines (lmcache 0.5.6):

    v1/distributed/storage_controllers/prefetch_controller.py
    :1183 _poll_load_results      → notes which adapter brought which chunks
    :1340 _publish_result         → the chunks' sources travel with the result
    v1/distributed/storage_manager.py
    :508  query_prefetch_status   → they are kept under SGLang's request id
    :296  reserve_write           → nothing is taken in under a destroyed salt
    v1/multiprocess/modules/engine_driven_transfer.py (CPU), lmcache_driven_transfer.py (GPU)
          prepare_retrieve, commit_retrieve, retrieve → which chunks the engine took
    v1/multiprocess/modules/lookup.py
    :155  lookup                  → nothing is found under a destroyed salt, in RAM neither
    :430  end_session             → the request is over
    v1/multiprocess/engine_context.py
    :63   LayoutDescRegistry.register → the size of a chunk
    v1/distributed/storage_controllers/eviction_controller.py
    :192, :406                    → evictions are counted
"""

import functools
import time
from typing import Any

from foreword_guard.loads import RAM
from foreword_guard.tier_state import TierState

_SOURCES = "foreword_sources"
_READY = "foreword_retrieve_ready"


def install(state: TierState) -> None:
    """Put it into LMCache's classes, in place."""
    _note_sources(state)
    _keep_results(state)
    _note_cpu_loads(state)
    _note_gpu_loads(state)
    _note_sessions(state)
    _find_nothing_under_destroyed_salts(state)
    _note_evictions(state)


def _note_sources(state: TierState) -> None:
    from lmcache.v1.distributed.storage_controllers.prefetch_controller import PrefetchController

    poll = PrefetchController._poll_load_results
    publish = PrefetchController._publish_result

    @functools.wraps(poll)
    def poll_load_results(self: Any, request: Any, signaled_adapters: set[int]) -> None:
        for index in signaled_adapters & set(request.inflight_load_tasks):
            planned = request.key_states.l2_locked_keys[index].copy()
            poll(self, request, {index})
            if index not in request.inflight_load_tasks:
                name = state.name_of(self._l2_adapters[index])
                _add_sources(request, planned & request.l2_loaded_cells, name)

    @functools.wraps(publish)
    def publish_result(self: Any, request: Any, result: Any) -> None:
        brought = getattr(request, _SOURCES, {})
        hits = result.hit_cells[0].popcount() if result.hit_cells else 0
        sources = [brought.get(chunk, RAM) for chunk in range(hits)]
        object.__setattr__(result, _SOURCES, sources)
        publish(self, request, result)

    PrefetchController._poll_load_results = poll_load_results
    PrefetchController._publish_result = publish_result


def _add_sources(request: Any, brought: Any, name: str | None) -> None:
    """With several rows (ranks), one that came from below decides for its chunk."""
    sources: dict[int, str] = getattr(request, _SOURCES, {})
    for row in brought.to_list():
        for chunk in row.get_indices_list():
            sources[chunk] = name or "other"
    setattr(request, _SOURCES, sources)


def _keep_results(state: TierState) -> None:
    from lmcache.v1.distributed.storage_manager import StorageManager

    query = StorageManager.query_prefetch_status
    reserve = StorageManager.reserve_write

    @functools.wraps(query)
    def query_prefetch_status(self: Any, handle: Any) -> Any:
        result = query(self, handle)
        sources = getattr(result, _SOURCES, None)
        if sources and handle.external_request_id:
            state.records.found(handle.external_request_id, sources)
        return result

    @functools.wraps(reserve)
    def reserve_write(self: Any, keys: list[Any], layout_desc: Any) -> Any:
        gone = {salt for salt in {key.cache_salt for key in keys} if state.is_destroyed(salt)}
        kept = [key for key in keys if key.cache_salt not in gone] if gone else keys
        return reserve(self, kept, layout_desc) if kept else {}

    StorageManager.query_prefetch_status = query_prefetch_status
    StorageManager.reserve_write = reserve_write


def _note_cpu_loads(state: TierState) -> None:
    """The engine copies between `prepare` and `commit`; it commits a load that failed too."""
    from lmcache.v1.multiprocess.modules.engine_driven_transfer import EngineDrivenTransferModule

    prepare = EngineDrivenTransferModule.prepare_retrieve
    commit = EngineDrivenTransferModule.commit_retrieve

    @functools.wraps(prepare)
    def prepare_retrieve(self: Any, key: Any, instance_id: int) -> Any:
        response = prepare(self, key, instance_id)
        session = self._ctx.session_manager.get_or_create(key.request_id)
        session.extras[_READY] = time.perf_counter() if response.success else None
        return response

    @functools.wraps(commit)
    def commit_retrieve(self: Any, key: Any, instance_id: int) -> Any:
        session = self._ctx.session_manager.get_or_create(key.request_id)
        ready_s = session.extras.pop(_READY, None)
        done = commit(self, key, instance_id)
        if ready_s is not None and done:
            _count_load(state, key, seconds=time.perf_counter() - ready_s)
        return done

    EngineDrivenTransferModule.prepare_retrieve = prepare_retrieve
    EngineDrivenTransferModule.commit_retrieve = commit_retrieve


def _note_gpu_loads(state: TierState) -> None:
    """The copy is only queued on the GPU's stream here, so its time isn't known."""
    from lmcache.v1.multiprocess.modules.lmcache_driven_transfer import LMCacheDrivenTransferModule

    original = LMCacheDrivenTransferModule.retrieve

    @functools.wraps(original)
    def retrieve(self: Any, key: Any, *arguments: Any, **named: Any) -> Any:
        event, done = original(self, key, *arguments, **named)
        if done:
            _count_load(state, key, seconds=None)
        return event, done

    LMCacheDrivenTransferModule.retrieve = retrieve


def _count_load(state: TierState, key: Any, *, seconds: float | None) -> None:
    chunk_tokens = state.chunk_tokens
    start, stop = key.start // chunk_tokens, key.end // chunk_tokens
    state.records.loaded(key.request_id, start, stop)
    timed = seconds is not None and state.chunk_bytes is not None
    size_bytes = (stop - start) * (state.chunk_bytes or 0) if timed else 0
    state.ram.load(stop - start, size_bytes=size_bytes, seconds=seconds or 0.0 if timed else 0.0)


def _note_sessions(state: TierState) -> None:
    from lmcache.v1.multiprocess.engine_context import LayoutDescRegistry, MPCacheServerContext
    from lmcache.v1.multiprocess.modules.lookup import LookupModule

    init = MPCacheServerContext.__init__
    end = LookupModule.end_session
    register = LayoutDescRegistry.register

    @functools.wraps(init)
    def init_context(self: Any, *arguments: Any, **named: Any) -> None:
        init(self, *arguments, **named)
        state.chunk_tokens = int(self.chunk_size)

    @functools.wraps(end)
    def end_session(self: Any, request_id: str) -> None:
        end(self, request_id)
        state.records.ended(request_id)

    @functools.wraps(register)
    def register_layout(
        self: Any, model_name: str, world_size: int, layout_desc: Any, *arguments: Any, **named: Any
    ) -> None:
        register(self, model_name, world_size, layout_desc, *arguments, **named)
        tensors = zip(layout_desc.shapes, layout_desc.dtypes, strict=True)
        piece = sum(int(shape.numel() * dtype.itemsize) for shape, dtype in tensors)
        state.chunk_bytes = piece * world_size

    MPCacheServerContext.__init__ = init_context
    LookupModule.end_session = end_session
    LayoutDescRegistry.register = register_layout


def _find_nothing_under_destroyed_salts(state: TierState) -> None:
    from lmcache.v1.distributed.api import PrefetchHandle
    from lmcache.v1.multiprocess.modules.lookup import LookupModule, _PrefetchJob

    original = LookupModule.lookup

    @functools.wraps(original)
    def lookup(self: Any, key: Any, tp_size: int) -> None:
        if not state.is_destroyed(key.cache_salt):
            original(self, key, tp_size)
            return
        handle = PrefetchHandle(
            prefetch_request_id=-1,
            external_request_id=key.request_id,
            total_requested_keys=0,
            submit_time=time.monotonic(),
        )
        job = _PrefetchJob(
            handle=handle,
            row_windows=(),
            request_id=key.request_id,
            requested_tokens=0,
            model_name=key.model_name,
            cache_salt=key.cache_salt,
            early_exit_reason="salt_destroyed",
        )
        self._register_prefetch_job(job)

    LookupModule.lookup = lookup


def _note_evictions(state: TierState) -> None:
    from lmcache.v1.distributed.error import L1Error
    from lmcache.v1.distributed.storage_controllers.eviction_controller import (
        L1EvictionController,
        L2EvictionController,
    )

    evict = L2EvictionController._execute_eviction_action

    def execute_eviction_action(self: Any, action: Any) -> None:
        done = self._l1_manager.delete(action.keys)
        state.ram.evicted(RAM, sum(error == L1Error.SUCCESS for error in done.values()))

    @functools.wraps(evict)
    def execute_l2(self: Any, adapter: Any, action: Any) -> None:
        evict(self, adapter, action)
        name = state.name_of(adapter)
        if name is not None:
            state.ram.evicted(name, len(action.keys))

    L1EvictionController.execute_eviction_action = execute_eviction_action
    L2EvictionController._execute_eviction_action = execute_l2
