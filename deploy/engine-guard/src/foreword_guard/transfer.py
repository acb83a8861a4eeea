"""What the engine sends to the tier passes here, and stops here while the breaker is open.

Stands in for the bare transfer context and request client of LMCache's connector
(lmcache/integration/sglang/unified_lmcache_mp_connector.py:304 and :528, 0.5.6), which wait up to
`mq_timeout` on the scheduler's thread for each store and each load of a dead server, and queue
their calls in ZMQ, to be replayed into the next one.
"""

import logging
import threading
import time
from collections.abc import Callable
from typing import Any

from foreword_guard.breaker import Breaker
from foreword_guard.futures import SettledFuture, TransferFuture

logger = logging.getLogger("foreword_guard")

# Calls that only tidy up on the server: with the breaker open they are answered here. What they
# would have released is released by the server's own expiry, or by the prober (lookups.py).
_QUIET_ANSWERS: dict[str, Any] = {
    "lookup": None,
    "query_prefetch_status": 0,
    "free_lookup_locks": None,
    "end_session": None,
    "ping": False,
}


class GuardedClient:
    """LMCache's request client; sends nothing that can wait while the breaker is open."""

    def __init__(self, inner: Any, breaker: Breaker) -> None:
        self.inner = inner
        self._breaker = breaker

    def __getattr__(self, name: str) -> Any:
        call = getattr(self.inner, name)
        if name not in _QUIET_ANSWERS:
            return call
        answer = _QUIET_ANSWERS[name]

        def guarded(*arguments: Any) -> Any:
            return call(*arguments) if self._breaker.closed else SettledFuture(answer)

        return guarded


class AbsentTransfer:
    """Stands where LMCache's context will be; the breaker keeps everybody away from it."""

    def unregister(self) -> None:
        return None

    def close(self) -> None:
        """Nothing was opened."""


class GuardedTransfer:
    """LMCache's transfer context; bounds each transfer and skips it while the breaker is open.

    `replace()` swaps the context underneath after a re-registration. It waits for a transfer that
    is running, because closing a context unmaps the shared memory that the transfer uses; a
    transfer never waits for it, because the breaker is open at that time.

    Args:
        inner: LMCache's context, registered.
        breaker: asked before each transfer.
        failed: told why a transfer failed or was late.
        limit_s: longest that one transfer may take.
    """

    def __init__(
        self, inner: Any, breaker: Breaker, failed: Callable[[str], None], limit_s: float
    ) -> None:
        self.inner = inner
        self._breaker = breaker
        self._failed = failed
        self._limit_s = limit_s
        self._in_use = threading.Lock()
        self._outstanding: list[TransferFuture] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def create_recorded_event(self) -> Any:
        return self.inner.create_recorded_event() if self._breaker.closed else None

    def submit_store(self, *arguments: Any, **named: Any) -> Any:
        return self._run("store", "submit_store", arguments, named)

    def submit_retrieve(self, *arguments: Any, **named: Any) -> Any:
        return self._run("load", "submit_retrieve", arguments, named)

    @property
    def in_flight(self) -> bool:
        """Whether the tier may still be reading or writing the engine's KV pages."""
        return self.waiting_s() is not None

    def waiting_s(self) -> float | None:
        """Age of the oldest transfer that isn't settled, seconds; None when there is none."""
        submitted = [f.submitted_s for f in self._outstanding if not f.settled]
        return time.monotonic() - min(submitted) if submitted else None

    def abandon_outstanding(self) -> int:
        """Fail every transfer in flight: the process that had them is gone."""
        with self._in_use:
            abandoned, self._outstanding = self._outstanding, []
        for future in abandoned:
            future.abandon()
        return len(abandoned)

    def unregister(self) -> Any:
        """As the context's own; a tier that doesn't answer isn't told."""
        return self.inner.unregister() if self._breaker.closed else None

    def replace(self, register: Callable[[], None], *, unregister_within_s: float | None) -> None:
        """Close the context and let `register` put another in its place, as `inner`.

        With `register` failing, the closed one stays: the breaker keeps everybody away from it.

        Args:
            register: sets `inner`.
            unregister_within_s: with a time, the server that has the old registration is told
                first, so that it drops what was reserved and never written (unwritten.py).
        """
        with self._in_use:
            if unregister_within_s is not None:
                self._tell_server(unregister_within_s)
            try:
                self.inner.close()
            except BufferError as exc:
                # A view of the old shared memory is still alive somewhere; it is unmapped with it.
                logger.warning("foreword_guard: old shared memory stays mapped for now: %s", exc)
            register()

    def _tell_server(self, within_s: float) -> None:
        future = self.inner.unregister()
        if future is not None and not future.wait(within_s):
            logger.warning("foreword_guard: the tier didn't confirm that it let go; it will reap")

    def _run(self, what: str, method: str, arguments: Any, named: Any) -> Any:
        with self._in_use:
            if not self._breaker.closed:
                return SettledFuture(False)
            started_s = time.monotonic()
            finished = False
            try:
                future = getattr(self.inner, method)(*arguments, **named)
                finished = time.monotonic() - started_s < self._limit_s
            except TimeoutError:
                return SettledFuture(False)
            finally:
                if not finished:
                    self._failed(f"a {what} took {time.monotonic() - started_s:.1f} s")
            return self._watch(future)

    def _watch(self, future: Any) -> Any:
        """Keep what is still in flight; the CPU's transfers are over when they are submitted."""
        if future.query():
            return future
        watched = TransferFuture(future, self._limit_s, self._failed)
        self._outstanding = [f for f in self._outstanding if not f.settled]
        self._outstanding.append(watched)
        return watched
