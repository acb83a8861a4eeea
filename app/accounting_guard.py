"""The one place where a fault of accounting ends: no request may fail for it."""

from collections.abc import Callable
from types import TracebackType
from typing import TypeVar

import structlog

_log = structlog.get_logger()

_Given = TypeVar("_Given")
_Made = TypeVar("_Made")


class Guard:
    """The same as `Harmless`, for a function, at one call instead of four.

    Attributes:
        faults: how often something was raised.
    """

    __slots__ = ("faults",)

    def __init__(self) -> None:
        self.faults = 0

    def run(
        self, work: Callable[[_Given], _Made], given: _Given, request_id: str | None
    ) -> _Made | None:
        """What `work` makes of what it is given; None where it fails."""
        try:
            return work(given)
        except Exception as error:  # noqa: BLE001 - no request may fail for its accounting
            self.faults += 1
            _log.error("accounting_failed", request_id=request_id, exc_info=error)
            return None

    def harmless(self, request_id: str | None) -> "Harmless":
        """The same for what can't be handed over as a function."""
        return Harmless(self, request_id)


class Harmless:
    """Logs what is raised in it, and goes on behind it.

    Args:
        guard: counts what is raised.
        request_id: the request that was accounted for, if it was for one.
    """

    __slots__ = ("_guard", "_request_id")

    def __init__(self, guard: Guard, request_id: str | None) -> None:
        self._guard = guard
        self._request_id = request_id

    def __enter__(self) -> None:
        return

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool:
        if not isinstance(error, Exception):
            return False
        self._guard.faults += 1
        _log.error("accounting_failed", request_id=self._request_id, exc_info=error)
        return True
