"""The look-ups of one adapter: each is answered within the deadline, if only by "nothing found".

LMCache waits for every adapter's look-up before it loads from any
(v1/distributed/storage_controllers/prefetch_controller.py:912, 0.5.6). What a late one locked in
the adapter is unlocked when it comes.
"""

import secrets
import threading
from dataclasses import dataclass, field
from typing import Any

from lmcache.lmcache_native import Bitmap
from lmcache.v1.distributed.api import ObjectKey
from lmcache.v1.platform import create_event_notifier

from foreword_guard.adapter_parts import AdapterParts
from foreword_guard.stopwatch import Stopwatch

_PROBED = "foreword-probe"


@dataclass(slots=True)
class _Lookup:
    """A look-up at the inner adapter; `task_id` None: nobody waits for it (any more)."""

    task_id: int | None
    keys: list[ObjectKey]
    watch: Stopwatch = field(default_factory=Stopwatch)


@dataclass(slots=True)
class _Probe(_Lookup):
    """A look-up of a key that nobody has, to see whether the adapter answers."""

    failures_before: int = 0


class AdapterLookups:
    """Called from LMCache's threads (`submit`, `result`) and the adapter's own (the rest)."""

    def __init__(self, parts: AdapterParts) -> None:
        self._parts = parts
        self._lock = threading.Lock()
        self._last_task = 0
        self._pending: dict[int, _Lookup] = {}
        self._completed: dict[int, Bitmap] = {}
        self._notifier = create_event_notifier()
        self._probed: Stopwatch | None = None

    def fileno(self) -> int:
        """Readable when look-ups are done."""
        return int(self._notifier.fileno())

    def close(self) -> None:
        self._notifier.close()

    def waiting(self) -> bool:
        """Whether a request waits for one."""
        with self._lock:
            return any(lookup.task_id is not None for lookup in self._pending.values())

    def submit(self, keys: list[ObjectKey], layouts: Any) -> int:
        """Ask the adapter, or answer "nothing" at once while it isn't used."""
        with self._lock:
            self._last_task += 1
            task_id = self._last_task
        if not self._parts.health.may_read():
            self._parts.counters.lookup_skipped()
            self._finish(task_id, Bitmap(len(keys)))
            return task_id
        with self._lock:
            inner_id = self._parts.inner.submit_lookup_and_lock_task(keys, layouts)
            self._pending[inner_id] = _Lookup(task_id, list(keys))
        return task_id

    def result(self, task_id: int) -> Bitmap | None:
        with self._lock:
            return self._completed.pop(task_id, None)

    def drain(self) -> None:
        """Take what the inner adapter has answered."""
        with self._lock:
            pending = list(self._pending.items())
        for inner_id, lookup in pending:
            found = self._parts.inner.query_lookup_and_lock_result(inner_id)
            if found is None:
                continue
            with self._lock:
                del self._pending[inner_id]
            if lookup.task_id is None:
                self._unlock(lookup, found)
            else:
                self._parts.counters.lookup(lookup.watch.elapsed_s)
                self._finish(lookup.task_id, found)
            if isinstance(lookup, _Probe):
                self._judge(lookup)

    def give_up(self) -> None:
        """Answer what has been waiting for too long."""
        limit_s = self._parts.settings.lookup_s
        with self._lock:
            pending = list(self._pending.values())
        for lookup in pending:
            task_id = lookup.task_id
            if task_id is None or lookup.watch.waited_s() < limit_s:
                continue
            lookup.task_id = None
            self._parts.counters.lookup(lookup.watch.elapsed_s, late=True)
            self._finish(task_id, Bitmap(len(lookup.keys)))
            self._parts.reading_failed(f"a look-up took more than {limit_s:g} s")

    def probe_if_due(self) -> None:
        """Find out whether a failing adapter answers again; one probe at a time."""
        parts = self._parts
        if not parts.health.wants_probe():
            return
        if self._probed is not None and self._probed.elapsed_s < parts.settings.retry_s:
            return
        with self._lock:
            if any(isinstance(lookup, _Probe) for lookup in self._pending.values()):
                return
            key = ObjectKey(chunk_hash=secrets.token_bytes(32), model_name=_PROBED, kv_rank=0)
            inner_id = parts.inner.submit_lookup_and_lock_task([key], {})
            self._pending[inner_id] = _Probe(None, [key], failures_before=parts.failures)
        self._probed = Stopwatch()

    def _judge(self, probe: _Probe) -> None:
        in_time = probe.watch.elapsed_s <= self._parts.settings.lookup_s
        unbroken = self._parts.failures == probe.failures_before
        if in_time and unbroken and self._parts.health.wants_probe():
            self._parts.can_read_again()

    def _unlock(self, lookup: _Lookup, found: Bitmap) -> None:
        keys = [key for index, key in enumerate(lookup.keys) if found.test(index)]
        if keys:
            self._parts.inner.submit_unlock(keys)

    def _finish(self, task_id: int, found: Bitmap) -> None:
        with self._lock:
            self._completed[task_id] = found
        self._notifier.notify()
