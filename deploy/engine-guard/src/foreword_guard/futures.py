"""Futures that the guard hands to SGLang's LMCache connector in place of LMCache's own.

They offer what the connector calls on a future (query, result, wait_on_stream, retain_reference).
Source: lmcache/v1/multiprocess/futures.py:59 (0.5.6).
"""

import threading
import time
from collections.abc import Callable
from typing import Any


class SettledFuture:
    """An answer that was decided without asking the tier."""

    def __init__(self, answer: Any) -> None:
        self._answer = answer

    def query(self) -> bool:
        return True

    def result(self, timeout: float | None = None) -> Any:
        return self._answer

    def wait_on_stream(self, stream: Any, timeout: float | None = None) -> Any:
        return self._answer

    def retain_reference(self, value: object) -> None:
        """Nothing is in flight, so nothing needs to be kept."""


class TransferFuture:
    """A transfer that another process may still be working on.

    While it is not `settled`, the tier may be reading or writing the engine's KV pages, so the
    pages must not be given to anybody else. It settles when the tier answers, or when the guard
    knows that the process is gone and calls `abandon()`.

    Args:
        inner: LMCache's future.
        limit_s: longest that the scheduler waits for the answer.
        late: told when the answer doesn't come in time.
    """

    def __init__(self, inner: Any, limit_s: float, late: Callable[[str], Any]) -> None:
        self._inner = inner
        self._limit_s = limit_s
        self._tell_late = late
        self.submitted_s = time.monotonic()
        self._late = False
        self._abandoned = threading.Event()

    @property
    def settled(self) -> bool:
        """True when no other process can touch the pages any more."""
        return self._abandoned.is_set() or bool(self._inner.query())

    def abandon(self) -> None:
        """The process that had it is gone: the transfer failed, and is over."""
        self._abandoned.set()

    def query(self) -> bool:
        return self.settled

    def result(self, timeout: float | None = None) -> Any:
        if self._abandoned.is_set():
            return False
        return self._inner.result(self._bounded(timeout))

    def wait_on_stream(self, stream: Any, timeout: float | None = None) -> Any:
        if self._abandoned.is_set():
            return False
        try:
            return self._inner.wait_on_stream(stream, timeout=self._bounded(timeout))
        except TimeoutError:
            self._late = True
            self._tell_late(f"a load took more than {self._limit_s:g} s")
            raise

    def retain_reference(self, value: object) -> None:
        self._inner.retain_reference(value)

    def _bounded(self, timeout: float | None) -> float:
        """The wait allowed now: none at all once the answer has been late."""
        if self._late:
            return 0.0
        return self._limit_s if timeout is None else min(timeout, self._limit_s)
