"""New connections are taken all at once.

libuv takes one for each turn of the event loop. A turn is long where many streams are served: a
burst of a thousand clients then waited for up to twenty seconds, in the kernel's queue, while those
who were in were served again and again.
"""

import asyncio
import os
import socket
from collections.abc import Callable, Iterable

# As many as are waited for before others have their turn.
_AT_ONCE = 256
# Longer than one that was taken is without its protocol.
_MOMENT_S = 1.0


class Accepting:
    """Takes what waits on sockets that an event loop's own server listens on, beside that.

    It has the sockets open too: nobody else can listen there until it is closed.

    Args:
        listening: sockets, or what stands for them and has their descriptors.
        protocol: makes a connection's protocol.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        listening: Iterable[socket.socket],
        protocol: Callable[[], asyncio.Protocol],
    ) -> None:
        self._loop = loop
        self._protocol = protocol
        self._connecting: set[asyncio.Task[object]] = set()
        self._sockets = [socket.socket(fileno=os.dup(each.fileno())) for each in listening]
        for each in self._sockets:
            each.setblocking(False)
            loop.add_reader(each, self._accept, each)

    async def close(self) -> None:
        """Take no more; returns when those that were taken have their protocols."""
        for each in self._sockets:
            self._loop.remove_reader(each)
            each.close()
        self._sockets.clear()
        if self._connecting:
            await asyncio.wait(self._connecting, timeout=_MOMENT_S)

    def _accept(self, listening: socket.socket) -> None:
        for _ in range(_AT_ONCE):
            try:
                connection, _ = listening.accept()
            except (BlockingIOError, InterruptedError):
                return
            except ConnectionAbortedError:  # it has left again
                continue
            except OSError:  # no descriptors, say: the loop's own server knows what to do
                return
            connection.setblocking(False)
            task = self._loop.create_task(self._connect(connection))
            self._connecting.add(task)
            task.add_done_callback(self._connecting.discard)

    async def _connect(self, connection: socket.socket) -> None:
        try:
            await self._loop.connect_accepted_socket(self._protocol, connection)
        except OSError:  # it has left again
            connection.close()
