"""The loads of one adapter: read, opened, and reported within the deadline.

Stands in for the loading half of `SerdeL2AdapterWrapper`
(lmcache/v1/distributed/l2_adapters/serde_wrapper.py, 0.5.6), which waits for ever, fails a load as
a whole when one chunk fails (`_drain_deserialize`, :562) and leaves that chunk in place. Here the
good chunks are reported as loaded and the bad ones deleted: the engine gets the shorter prefix and
computes the rest, which is then stored anew. A load that is late ends with the chunks that have
come; what it still reads goes into buffers that are kept until it has.

An object that a file adapter lists but can't read in full (cut short) is deleted too. With Redis, a
key that wasn't read may be on the other side of a broken connection, so it stays; values of another
length are deleted where they are read (resp.py).
"""

import logging
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from lmcache.lmcache_native import Bitmap
from lmcache.v1.distributed.api import ObjectKey
from lmcache.v1.distributed.l2_adapters.serde_wrapper import _L1_WRITE_TAG
from lmcache.v1.platform import create_event_notifier

from foreword_guard.adapter_parts import AdapterParts
from foreword_guard.load_gate import LoadGate
from foreword_guard.sealing import SealingProcessor
from foreword_guard.stopwatch import Stopwatch

logger = logging.getLogger("foreword_guard")

_KEEP_EVERY_S = 60.0


@dataclass(slots=True)
class _Load:
    """Chunks on their way from `frames` (temporary buffers) into `targets`.

    `over` once its result was reported.
    """

    task_id: int
    keys: list[ObjectKey]
    targets: list[Any]
    temp_keys: list[ObjectKey]
    frames: list[Any]
    read: Bitmap | None = None
    gate: LoadGate = field(default_factory=LoadGate)
    watch: Stopwatch = field(default_factory=Stopwatch)
    over: bool = False


class AdapterLoads:
    """Called from LMCache's threads (`submit`, `result`) and the adapter's own (the rest).

    Args:
        sealing: opens frames.
        l1_manager: owns the temporary buffers.
        allocate, release: LMCache's wrapper's own, for temporary buffers.
        may_be_cut_off: whether a key that wasn't read may be there all the same (Redis).
    """

    def __init__(
        self,
        parts: AdapterParts,
        *,
        sealing: SealingProcessor,
        l1_manager: Any,
        allocate: Callable[..., Any],
        release: Callable[[list[ObjectKey]], None],
        may_be_cut_off: bool,
    ) -> None:
        self._parts = parts
        self._sealing = sealing
        self._l1_manager = l1_manager
        self._allocate = allocate
        self._release = release
        self._may_be_cut_off = may_be_cut_off
        self._lock = threading.Lock()
        self._last_task = 0
        self._reading: dict[int, _Load] = {}
        self._opening: dict[int, _Load] = {}
        self._completed: dict[int, Bitmap] = {}
        self._notifier = create_event_notifier()
        self._kept = Stopwatch()
        # Deleting waits for the store behind the adapter (up to 30 s with a dead Redis), which
        # must not hold up the adapter's thread.
        self._deleter = ThreadPoolExecutor(max_workers=1, thread_name_prefix="foreword-delete")

    def fileno(self) -> int:
        """Readable when loads are done."""
        return int(self._notifier.fileno())

    def stop_deleting(self) -> None:
        self._deleter.shutdown(wait=False, cancel_futures=True)

    def close(self) -> None:
        """Give all temporary buffers back; nobody reads into them any more."""
        for load in self._all():
            self._release(load.temp_keys)
        self._notifier.close()

    def waiting(self) -> bool:
        """Whether a request waits for one."""
        return any(not load.over for load in self._all())

    def submit(self, keys: list[ObjectKey], targets: list[Any]) -> int:
        """Begin a load, or end it at once while the adapter isn't used."""
        with self._lock:
            self._last_task += 1
            task_id = self._last_task
        if not self._parts.health.may_read():
            return self._refuse(task_id, keys)
        temp_keys, frames = self._allocate(keys, targets)
        if frames is None:
            logger.warning("foreword_guard: no RAM is free to load from %s", self._parts.label)
            return self._refuse(task_id, keys)
        load = _Load(task_id, list(keys), list(targets), temp_keys, frames)
        with self._lock:
            self._reading[self._parts.inner.submit_load_task(keys, frames)] = load
        return task_id

    def result(self, task_id: int) -> Bitmap | None:
        with self._lock:
            return self._completed.pop(task_id, None)

    def drain_read(self) -> None:
        """Take what the inner adapter has read, and have it opened."""
        with self._lock:
            reading = list(self._reading.items())
        for inner_id, load in reading:
            load.read = self._parts.inner.query_load_result(inner_id)
            if load.read is None:
                continue
            with self._lock:
                del self._reading[inner_id]
            if load.over:
                self._release(load.temp_keys)
            elif load.read.popcount():
                self._open(load, load.read)
            else:
                self._nothing_read(load)

    def drain_opened(self) -> None:
        """Take what has been opened, and report it."""
        with self._lock:
            opening = list(self._opening.items())
        for serde_id, load in opening:
            if self._sealing.query_deserialize_result(serde_id) is None:
                continue
            with self._lock:
                del self._opening[serde_id]
            self._delete(self._sealing.take_rejected(serde_id), self._unreadable(load))
            if not load.over:
                self._finish(load)
            self._release(load.temp_keys)

    def give_up(self) -> None:
        """End what has been loading for too long."""
        limit_s = self._parts.settings.load_s
        for load in self._all():
            if not load.over and load.watch.waited_s() >= limit_s:
                self._finish(load, late=True)
                self._parts.reading_failed(f"a load took more than {limit_s:g} s")

    def keep_buffers(self) -> None:
        """LMCache gives a buffer to somebody else once its write lock expires, after ten minutes.

        A disk that hangs for longer would then write into that. So the locks of loads that were
        given up are renewed until they have come.
        """
        if self._kept.elapsed_s < _KEEP_EVERY_S:
            return
        self._kept = Stopwatch()
        for load in self._all():
            for key in load.temp_keys:
                staged = self._l1_manager._get_staging(key, _L1_WRITE_TAG)
                if staged is not None:
                    staged.write_lock.lock()

    def _all(self) -> list[_Load]:
        with self._lock:
            return [*self._reading.values(), *self._opening.values()]

    def _open(self, load: _Load, read: Bitmap) -> None:
        chunks = [
            (index, load.frames[index], load.targets[index], key)
            for index, key in enumerate(load.keys)
            if read.test(index)
        ]
        with self._lock:
            self._opening[self._sealing.submit_open(chunks, load.gate)] = load

    def _refuse(self, task_id: int, keys: Sequence[ObjectKey]) -> int:
        self._parts.counters.load_refused(len(keys))
        self._report(task_id, Bitmap(len(keys)))
        return task_id

    def _nothing_read(self, load: _Load) -> None:
        self._delete([], self._unreadable(load))
        self._finish(load)
        self._release(load.temp_keys)
        self._parts.read_nothing()

    def _finish(self, load: _Load, *, late: bool = False) -> None:
        """Report what has come; nothing is written into the chunks' RAM after that."""
        load.over = True
        served = Bitmap(len(load.keys))
        positions = load.gate.close()
        for position in positions:
            served.set(position)
        self._parts.counters.load(
            load.watch.elapsed_s,
            chunks=len(positions),
            size_bytes=sum(load.targets[position].get_size() for position in positions),
            failed=len(load.keys) - len(positions),
            late=late,
        )
        if positions and not late:
            self._parts.health.read_well()
        self._report(load.task_id, served)

    def _report(self, task_id: int, served: Bitmap) -> None:
        with self._lock:
            self._completed[task_id] = served
        self._notifier.notify()

    def _unreadable(self, load: _Load) -> list[ObjectKey]:
        if self._may_be_cut_off or load.read is None:
            return []
        return [key for index, key in enumerate(load.keys) if not load.read.test(index)]

    def _delete(self, rejected: list[ObjectKey], unreadable: list[ObjectKey]) -> None:
        if not rejected and not unreadable:
            return
        self._parts.counters.rejected(len(rejected))
        logger.error(
            "foreword_guard: %d chunks in %s didn't authenticate and %d couldn't be read; "
            "they are deleted and computed anew",
            len(rejected),
            self._parts.label,
            len(unreadable),
        )
        self._deleter.submit(self._parts.inner.delete, rejected + unreadable)
