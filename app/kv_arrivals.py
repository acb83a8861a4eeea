"""When something has come on a ZeroMQ socket, told by its descriptor.

ZeroMQ's own asyncio sockets make futures, timers and polls for each wait, at several times the cost
of a message.
"""

import asyncio
from types import TracebackType
from typing import Any, cast

import zmq

_SOMETHING_CAME = int(zmq.POLLIN)  # a plain number: enumerations are slow to combine


class Arrivals:
    """Watches one subscription for one waiter; to be entered in the event loop.

    Args:
        gather_s: after something came, so long is waited for more: waking up costs more than a
            message does.
    """

    def __init__(self, socket: "zmq.Socket[bytes]", *, gather_s: float) -> None:
        self._socket = socket
        self._gather_s = gather_s
        self._loop = asyncio.get_running_loop()
        self._descriptor = cast(int, socket.getsockopt(zmq.FD))
        self._waiter: asyncio.Future[bool] | None = None
        self._gathering: asyncio.TimerHandle | None = None
        self._hurried = False
        self._watching = False

    def __enter__(self) -> "Arrivals":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._loop.remove_reader(self._descriptor)

    async def wait(self, within_s: float) -> bool:
        """Whether there is something to receive; waits for it, but no longer than that."""
        waiter: asyncio.Future[bool] = self._loop.create_future()
        self._waiter = waiter
        timer = self._loop.call_later(within_s, self._wake, False)
        if not self._watching:
            self._watching = True
            self._loop.add_reader(self._descriptor, self._ready)
        # The descriptor tells of what comes from now on only.
        self._ready()
        try:
            return await waiter
        finally:
            self._waiter = None
            timer.cancel()

    def hurry(self) -> None:
        """Somebody needs what comes next: it isn't gathered, nor what has come already."""
        self._hurried = True
        if self._gathering is not None:
            self._gathering.cancel()
            self._gathered()

    def _ready(self) -> None:
        # Asking also takes the signal off the descriptor, which would be reported for ever.
        events: Any = self._socket.getsockopt(zmq.EVENTS)
        if not events & _SOMETHING_CAME or self._waiter is None or self._gathering is not None:
            return
        if self._hurried:
            self._gathered()
        else:
            # What else comes until then needn't be told.
            self._watching = False
            self._loop.remove_reader(self._descriptor)
            self._gathering = self._loop.call_later(self._gather_s, self._gathered)

    def _gathered(self) -> None:
        self._gathering = None
        self._hurried = False
        self._wake(True)

    def _wake(self, has_come: bool) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(has_come)


class Cuts:
    """Notices that a socket's connection was cut, also if it has been made again since."""

    def __init__(self, socket: "zmq.Socket[bytes]") -> None:
        self._watched = socket
        self._events = socket.get_monitor_socket(zmq.EVENT_DISCONNECTED)

    def happened(self) -> bool:
        """Whether it was cut since this was last asked."""
        found = False
        while True:
            try:
                self._events.recv_multipart(zmq.NOBLOCK)
            except zmq.Again:
                return found
            found = True

    def close(self) -> None:
        self._watched.disable_monitor()
        self._events.close()
