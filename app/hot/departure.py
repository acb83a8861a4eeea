"""A client that goes away, or a gateway that won't wait any longer, and what that stops.

A cancel scope with a task that waits for the client's end costs ten times as much, for each request
of which nearly none is ever left.
"""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from types import TracebackType
from typing import Any

from anyio import CancelScope
from starlette.types import Receive, Scope

from app.errors import GatewayStoppingError

_STATE = "departure"


class Departure:
    """Whether a request's client is gone. While it is entered, its going cancels the task in it.

    So does `cut`, which is raised as a GatewayStoppingError when it is left.

    The connection's protocol says so (`left`), by the departure that it put into the request's
    state; where none did, `departure_of` has a task watch the client.
    """

    __slots__ = ("_cancelled", "_shields", "gone", "is_cut", "task")

    def __init__(self) -> None:
        self.gone = False
        self.is_cut = False
        self.task: asyncio.Task[Any] | None = None
        self._shields = 0
        self._cancelled = False

    def left(self) -> None:
        """The client is gone."""
        self.gone = True
        self._cancel()

    def cut(self) -> None:
        """The gateway stops, and waits no longer for the request."""
        self.is_cut = True
        self._cancel()

    def takes_back(self) -> bool:
        """Whether the cancellation that was caught is `cut`'s, and the current task goes on: to
        tell its client. It isn't cancelled again."""
        if not self.is_cut or self.gone or not self._cancelled:
            return False
        task = self.task
        return task is not None and task is asyncio.current_task() and task.uncancel() == 0

    def __enter__(self) -> "Departure":
        self.task = asyncio.current_task()
        if self.gone or self.is_cut:
            self._cancel()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool:
        task, self.task = self.task, None
        if not self._cancelled or task is None:
            return False
        # Somebody else may have cancelled the task, too.
        is_ours = task.uncancel() == 0 and isinstance(error, asyncio.CancelledError)
        if is_ours and self.is_cut and not self.gone:
            raise GatewayStoppingError from None
        return is_ours

    @contextmanager
    def shield(self) -> Iterator[None]:
        """What runs in it is finished first."""
        self._shields += 1
        try:
            yield
        finally:
            self._shields -= 1
            if self.gone or self.is_cut:
                self._cancel()

    def _cancel(self) -> None:
        if self.task is not None and not self._shields and not self._cancelled:
            self._cancelled = True
            self.task.cancel()


@contextmanager
def shielded(departure: Departure | None) -> Iterator[None]:
    """What runs in it is finished first, whoever cancels it."""
    with CancelScope(shield=True), departure.shield() if departure is not None else nullcontext():
        yield


def put_departure(scope: Scope) -> None:
    """For whoever serves the connection: `hang_up` will tell the request's departure."""
    scope["state"][_STATE] = Departure()


def hang_up(scope: Scope) -> None:
    """The client of a request is gone."""
    departure = scope["state"].get(_STATE)
    if departure is not None:
        departure.left()


def cut_short(scope: Scope) -> None:
    """The gateway stops, and waits no longer for a request."""
    departure = scope["state"].get(_STATE)
    if departure is not None:
        departure.cut()


def ended_by_departure(scope: Scope, receive: Receive) -> AbstractContextManager[Departure]:
    """Cancels what runs in it when the client goes away.

    Raises:
        GatewayStoppingError: it was cancelled because the gateway stops.
    """
    departure: Departure | None = scope.get("state", {}).get(_STATE)
    return _watching(receive) if departure is None else departure


@contextmanager
def _watching(receive: Receive) -> Iterator[Departure]:
    departure = Departure()
    watch = asyncio.ensure_future(_watched(receive))
    watch.add_done_callback(_when_ended(departure))
    try:
        with departure:
            yield departure
    finally:
        watch.cancel()


def _when_ended(departure: Departure) -> "Callable[[asyncio.Future[None]], None]":
    def ended(watch: "asyncio.Future[None]") -> None:
        if not watch.cancelled():
            watch.exception()  # looked at, or asyncio complains
            departure.left()

    return ended


async def _watched(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
