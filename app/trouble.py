"""Trouble that lasts, in the log: when it begins or changes, now and then, and when it is over."""

import time
from collections.abc import Callable

import structlog

AGAIN_S = 60.0


class Trouble:
    """One thing that is tried again and again and may fail for a while."""

    def __init__(self, event: str, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._event = event
        self._clock = clock
        self._problem: str | None = None
        self._said_at = 0.0
        self._times = 0
        self._log = structlog.get_logger()

    def failed(self, problem: str) -> None:
        """Logs it if it is new, or was last said a minute ago, with how often it has happened."""
        now = self._clock()
        if problem != self._problem:
            self._problem, self._times = problem, 0
        elif now - self._said_at < AGAIN_S:
            self._times += 1
            return
        self._times += 1
        self._said_at = now
        self._log.warning(self._event, problem=problem, times=self._times)

    def worked(self) -> None:
        """Logs the end, if there was trouble."""
        if self._problem is not None:
            self._log.info(f"{self._event}_no_more", problem=self._problem, times=self._times)
            self._problem, self._times = None, 0
