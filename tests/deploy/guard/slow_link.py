"""A TCP link to a server on this machine that can be made slow, silent, or cut."""

import socket
import threading
import time
from contextlib import suppress

_LONG_BYTES = 4096


class SlowLink:
    """Forwards to a port.

    Attributes:
        delay_s: added to each piece that a client sends.
        value_delay_s: added to each long piece that the server sends.
        silent: nothing is passed on while it is true, and nothing is lost.
        cut: connections are closed while it is true.
    """

    def __init__(self, target_port: int) -> None:
        self.delay_s = 0.0
        self.value_delay_s = 0.0
        self.silent = False
        self._target = ("127.0.0.1", target_port)
        self._cut = False
        self._open: set[socket.socket] = set()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def cut(self) -> bool:
        return self._cut

    @cut.setter
    def cut(self, cut: bool) -> None:
        self._cut = cut
        if cut:
            for end in list(self._open):
                self._close(end)

    def mend(self) -> None:
        """As fast as it was."""
        self.delay_s = self.value_delay_s = 0.0
        self.silent = self.cut = False

    def close(self) -> None:
        self._listener.close()
        self.cut = True

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                if self._cut:
                    client.close()
                    continue
                try:
                    server = socket.create_connection(self._target)
                except OSError:
                    client.close()  # nobody is there: the next one may have more luck
                    continue
                self._open |= {client, server}
                for ends in ((client, server), (server, client)):
                    asks = ends[0] is client
                    threading.Thread(target=self._pass_on, args=(*ends, asks), daemon=True).start()

    def _pass_on(self, source: socket.socket, sink: socket.socket, asks: bool) -> None:
        with suppress(OSError):
            while piece := source.recv(1 << 16):
                while self.silent:
                    time.sleep(0.02)
                if asks or len(piece) > _LONG_BYTES:
                    time.sleep(self.delay_s if asks else self.value_delay_s)
                sink.sendall(piece)
        for end in (source, sink):
            self._close(end)

    def _close(self, end: socket.socket) -> None:
        self._open.discard(end)
        with suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)
        end.close()
