"""Look-ups that the engine gave up on, until the tier has let go of what they locked.

A look-up that is abandoned goes on in the server: it loads chunks into L1 and read-locks them,
and END_SESSION doesn't unlock them (lmcache/v1/multiprocess/modules/lookup.py:462, 0.5.6, only
touches them). The locks would hold RAM until they expire after 300 s. So the prober asks, off the
scheduler's thread and while the breaker is closed, whether the prefetch is over, and then
releases the locks and ends the session.
"""

import threading
from dataclasses import dataclass
from typing import Any


@dataclass(slots=True)
class _Abandoned:
    key: Any
    readers: int
    status: Any = None


class AbandonedLookups:
    """Keys of abandoned look-ups by request id. Thread-safe.

    Args:
        limit: how many are remembered; beyond it the oldest are left to expire.
    """

    def __init__(self, limit: int = 256) -> None:
        self._limit = limit
        self._lock = threading.Lock()
        self._pending: dict[str, _Abandoned] = {}

    def __len__(self) -> int:
        return len(self._pending)

    def add(self, request_id: str, key: Any, readers: int) -> None:
        """Remember a look-up whose answer nobody waits for any more."""
        with self._lock:
            self._pending[request_id] = _Abandoned(key, readers)
            while len(self._pending) > self._limit:
                del self._pending[next(iter(self._pending))]

    def forget(self, request_id: str) -> None:
        """The same request looks up again: its answer belongs to that look-up now."""
        with self._lock:
            self._pending.pop(request_id, None)

    def clear(self) -> None:
        """The server that held the locks is gone."""
        with self._lock:
            self._pending.clear()

    def release(self, client: Any) -> int:
        """One pass over them, without waiting; returns how many are let go."""
        with self._lock:
            pending = list(self._pending.items())
        released = 0
        for request_id, lookup in pending:
            if lookup.status is None:
                lookup.status = client.query_prefetch_status(request_id)
                continue
            if not lookup.status.query():
                continue
            if lookup.status.result(timeout=0) is None:
                lookup.status = None
                continue
            client.free_lookup_locks(lookup.key, lookup.readers)
            client.end_session(request_id)
            self.forget(request_id)
            released += 1
        return released
