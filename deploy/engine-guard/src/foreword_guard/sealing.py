"""The serde `foreword_aead`: each stored chunk is sealed under its key, and rejected alone.

Stands in for lmcache/v1/distributed/serde/aesgcm.py (0.5.6), which seals without associated data
(another chunk's file copied over is served) and whose processor fails a whole batch for one bad
chunk (serde/async_processor.py:164). Loads and stores have threads of their own: a request waits
for a load, and nobody for a store. A store whose salt's key isn't at hand has a thread for itself
until it is, so that a disk which is slow to take a new key holds no other stores up.
"""

import functools
import logging
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from lmcache.v1.distributed.api import MemoryLayoutDesc, ObjectKey
from lmcache.v1.distributed.serde.async_processor import AsyncSerdeProcessor, _TaskType
from lmcache.v1.distributed.serde.base import Deserializer, SerdeTaskId, Serializer
from lmcache.v1.memory_management import MemoryObj

from foreword_guard.aead import OVERHEAD_BYTES, ObjectIdentity, open_into, seal_into
from foreword_guard.codecs import Codec, named_codec
from foreword_guard.errors import FrameError, SaltDestroyedError, SaltKeyError
from foreword_guard.load_gate import LoadGate
from foreword_guard.salt_keys import SaltKeys

logger = logging.getLogger("foreword_guard")


def identity_of(key: ObjectKey, codec: Codec) -> ObjectIdentity:
    """LMCache's object key and the codec as what a frame is bound to."""
    return ObjectIdentity(
        model_name=key.model_name,
        kv_rank=key.kv_rank,
        object_group_id=key.object_group_id,
        chunk_hash=key.chunk_hash,
        cache_salt=key.cache_salt,
        codec=codec.name,
    )


def _bytes_of(memory: MemoryObj) -> memoryview:
    return memoryview(memory.byte_array).cast("B")


class SealingSerializer(Serializer):  # type: ignore[misc]
    """Seals a chunk into a temporary buffer, on its way to an L2 adapter."""

    def __init__(self, keys: SaltKeys, codec: Codec) -> None:
        self._keys = keys
        self._codec = codec

    def serialize(self, src: MemoryObj, dst: MemoryObj, key: ObjectKey) -> int:
        """Raises SaltDestroyedError, SaltKeyError: the chunk is not stored."""
        cipher = self._keys.for_sealing(key.cache_salt)
        plaintext = self._codec.encode(_bytes_of(src), src.tensor)
        identity = identity_of(key, self._codec)
        return seal_into(_bytes_of(dst), plaintext, cipher=cipher, identity=identity)

    def estimate_serialized_size(self, layout_desc: MemoryLayoutDesc) -> int:
        tensors = zip(layout_desc.shapes, layout_desc.dtypes, strict=True)
        return OVERHEAD_BYTES + sum(self._codec.size(shape, dtype) for shape, dtype in tensors)


class SealingDeserializer(Deserializer):  # type: ignore[misc]
    """Opens a sealed chunk; raises FrameError when it isn't what its key says."""

    def __init__(self, keys: SaltKeys, codec: Codec) -> None:
        self._keys = keys
        self._codec = codec

    def deserialize(self, src: MemoryObj, dst: MemoryObj, key: ObjectKey) -> None:
        cipher = self._keys.for_opening(key.cache_salt)
        identity = identity_of(key, self._codec)
        frame, target = _bytes_of(src), _bytes_of(dst)
        if self._codec.exact:
            open_into(target, frame, cipher=cipher, identity=identity)
            return
        plaintext = memoryview(bytearray(self._codec.size(dst.tensor.shape, dst.tensor.dtype)))
        open_into(plaintext, frame, cipher=cipher, identity=identity)
        self._codec.decode(plaintext, dst.tensor)


class SealingProcessor(AsyncSerdeProcessor):  # type: ignore[misc]
    """LMCache's thread pool, except that a load rejects chunks one by one and can be ended."""

    def __init__(self, keys: SaltKeys, codec: Codec, max_workers: int) -> None:
        super().__init__(
            SealingSerializer(keys, codec), SealingDeserializer(keys, codec), max_workers
        )
        self._openers = ThreadPoolExecutor(max_workers, thread_name_prefix="foreword-open")
        self._rejected: dict[SerdeTaskId, list[ObjectKey]] = {}
        self._rejected_lock = threading.Lock()
        self._keys = keys
        self._problems: dict[SerdeTaskId, str] = {}
        self._closing = threading.Lock()
        self._closed = False

    def submit_serialize(
        self, src_objs: list[MemoryObj], dst_objs: list[MemoryObj], keys: list[ObjectKey]
    ) -> SerdeTaskId:
        task_id: SerdeTaskId = self._alloc_task_id()
        if all(self._keys.has(key.cache_salt) for key in keys):
            self._seal(task_id, src_objs, dst_objs, keys)
        else:
            threading.Thread(
                target=self._seal_with_new_keys,
                args=(task_id, src_objs, dst_objs, keys),
                name="foreword-seal",
                # The process may end though a disk hangs.
                daemon=True,
            ).start()
        return task_id

    def take_problem(self, task_id: SerdeTaskId) -> str | None:
        """Why a store's salt has no key now; asked once, after its result. None: it has one."""
        with self._rejected_lock:
            return self._problems.pop(task_id, None)

    def submit_open(
        self,
        chunks: Sequence[tuple[int, MemoryObj, MemoryObj, ObjectKey]],
        gate: LoadGate,
    ) -> SerdeTaskId:
        """Open chunks, given as position, frame, target and key, until the gate is closed."""
        task_id: SerdeTaskId = self._alloc_task_id()
        self._openers.submit(self._open, task_id, chunks, gate)
        return task_id

    def take_rejected(self, task_id: SerdeTaskId) -> list[ObjectKey]:
        """Keys that a finished load rejected; asked once, after its result."""
        with self._rejected_lock:
            return self._rejected.pop(task_id, [])

    def close(self) -> None:
        with self._closing:
            self._closed = True
        self._openers.shutdown(wait=True)
        super().close()

    def _seal(
        self,
        task_id: SerdeTaskId,
        sources: list[MemoryObj],
        targets: list[MemoryObj],
        keys: list[ObjectKey],
    ) -> None:
        """As LMCache does it."""
        self._pool.submit(self._run_task, task_id, _TaskType.SERIALIZE, sources, targets, keys)

    def _seal_with_new_keys(
        self,
        task_id: SerdeTaskId,
        sources: list[MemoryObj],
        targets: list[MemoryObj],
        keys: list[ObjectKey],
    ) -> None:
        """Once all salts have their key, in a thread of the store's own."""
        problem = self._key_problem({key.cache_salt for key in keys})
        with self._closing:
            if self._closed:  # then the buffers are somebody else's
                return
            if problem is None:
                self._seal(task_id, sources, targets, keys)
            else:
                self._fail_seal(task_id, problem)

    def _key_problem(self, salts: set[str]) -> SaltKeyError | SaltDestroyedError | None:
        try:
            for salt in salts:
                self._keys.for_sealing(salt)
        except (SaltKeyError, SaltDestroyedError) as error:
            return error
        return None

    def _fail_seal(self, task_id: SerdeTaskId, problem: SaltKeyError | SaltDestroyedError) -> None:
        if isinstance(problem, SaltKeyError):
            with self._rejected_lock:
                self._problems[task_id] = str(problem)
        with self._lock:
            self._completed_serialize[task_id] = False
        self._serialize_efd.notify()

    def _open(
        self,
        task_id: SerdeTaskId,
        chunks: Sequence[tuple[int, MemoryObj, MemoryObj, ObjectKey]],
        gate: LoadGate,
    ) -> None:
        rejected: list[ObjectKey] = []
        for position, frame, target, key in chunks:
            opens = functools.partial(self._opens, frame, target, key, rejected)
            if not gate.write(position, opens):
                break
        with self._rejected_lock:
            self._rejected[task_id] = rejected
        # With nothing left to do for a load, the parent only reports that it is finished.
        self._run_task(task_id, _TaskType.DESERIALIZE, [], [], [])

    def _opens(
        self, frame: MemoryObj, target: MemoryObj, key: ObjectKey, rejected: list[ObjectKey]
    ) -> bool:
        try:
            self._deserializer.deserialize(frame, target, key)
        except (FrameError, SaltDestroyedError):
            rejected.append(key)
            return False
        except SaltKeyError as error:
            logger.error("foreword_guard: %s", error)
            return False
        except (RuntimeError, ValueError):
            logger.exception("foreword_guard: a stored chunk can't be decoded")
            return False
        return True


def make_processor(options: dict[str, Any], keys: SaltKeys) -> SealingProcessor:
    """Factory for LMCache's serde registry.

    Raises:
        CodecError: `inner` names no codec, or one without what it needs.
    """
    return SealingProcessor(
        keys, named_codec(options), max_workers=int(options.get("max_workers", 1))
    )
