"""The serde `foreword_aead`: each stored chunk is sealed under its key, and rejected alone.

Stands in for lmcache/v1/distributed/serde/aesgcm.py (0.5.6), which seals without associated data
(another chunk's file copied over is served) and whose processor fails a whole batch for one bad
chunk (serde/async_processor.py:164).
"""

import threading
from pathlib import Path
from typing import Any

from lmcache.v1.distributed.api import MemoryLayoutDesc, ObjectKey
from lmcache.v1.distributed.serde.async_processor import AsyncSerdeProcessor, _TaskType
from lmcache.v1.distributed.serde.base import Deserializer, SerdeTaskId, Serializer
from lmcache.v1.memory_management import MemoryObj

from foreword_guard.aead import (
    OVERHEAD_BYTES,
    ObjectIdentity,
    SaltedKeys,
    open_into,
    read_master_key,
    seal_into,
)
from foreword_guard.errors import FrameError


def identity_of(key: ObjectKey) -> ObjectIdentity:
    """LMCache's object key as what a frame is bound to."""
    return ObjectIdentity(
        model_name=key.model_name,
        kv_rank=key.kv_rank,
        object_group_id=key.object_group_id,
        chunk_hash=key.chunk_hash,
        cache_salt=key.cache_salt,
    )


def _bytes_of(memory: MemoryObj) -> memoryview:
    return memoryview(memory.byte_array).cast("B")


class SealingSerializer(Serializer):  # type: ignore[misc]
    """Seals a chunk into a temporary buffer, on its way to an L2 adapter."""

    def __init__(self, keys: SaltedKeys) -> None:
        self._keys = keys

    def serialize(self, src: MemoryObj, dst: MemoryObj, key: ObjectKey) -> int:
        return seal_into(_bytes_of(dst), _bytes_of(src), keys=self._keys, identity=identity_of(key))

    def estimate_serialized_size(self, layout_desc: MemoryLayoutDesc) -> int:
        tensors = zip(layout_desc.shapes, layout_desc.dtypes, strict=True)
        return OVERHEAD_BYTES + sum(int(shape.numel() * dtype.itemsize) for shape, dtype in tensors)


class SealingDeserializer(Deserializer):  # type: ignore[misc]
    """Opens a sealed chunk; raises FrameError when it isn't what its key says."""

    def __init__(self, keys: SaltedKeys) -> None:
        self._keys = keys

    def deserialize(self, src: MemoryObj, dst: MemoryObj, key: ObjectKey) -> None:
        open_into(_bytes_of(dst), _bytes_of(src), keys=self._keys, identity=identity_of(key))


class SealingProcessor(AsyncSerdeProcessor):  # type: ignore[misc]
    """LMCache's thread pool, except that a load rejects chunks one by one."""

    def __init__(self, keys: SaltedKeys, max_workers: int) -> None:
        super().__init__(SealingSerializer(keys), SealingDeserializer(keys), max_workers)
        self._rejected: dict[SerdeTaskId, list[ObjectKey]] = {}
        self._rejected_lock = threading.Lock()

    def take_rejected(self, task_id: SerdeTaskId) -> list[ObjectKey]:
        """Keys that a finished load rejected; asked once, after its result."""
        with self._rejected_lock:
            return self._rejected.pop(task_id, [])

    def _run_task(
        self,
        task_id: SerdeTaskId,
        task_type: _TaskType,
        src_objs: list[MemoryObj],
        dst_objs: list[MemoryObj],
        keys: list[ObjectKey],
    ) -> None:
        if task_type == _TaskType.DESERIALIZE:
            rejected = [
                key
                for src, dst, key in zip(src_objs, dst_objs, keys, strict=True)
                if not self._opens(src, dst, key)
            ]
            with self._rejected_lock:
                self._rejected[task_id] = rejected
            src_objs, dst_objs, keys = [], [], []
        # With nothing left to do for a load, the parent only reports that it is finished.
        super()._run_task(task_id, task_type, src_objs, dst_objs, keys)

    def _opens(self, src: MemoryObj, dst: MemoryObj, key: ObjectKey) -> bool:
        try:
            self._deserializer.deserialize(src, dst, key)
        except FrameError:
            return False
        return True


def make_processor(options: dict[str, Any], key_file: Path | None) -> SealingProcessor:
    """Factory for LMCache's serde registry.

    Raises:
        KeyFileError: the key file can't be used.
    """
    keys = SaltedKeys(read_master_key(key_file))
    return SealingProcessor(keys, max_workers=int(options.get("max_workers", 1)))
