"""A client that sends whatever bytes it likes."""

import re
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

_PATIENCE_S = 60.0


@dataclass(frozen=True, slots=True)
class Heard:
    """All that came until the server closed, or until it was silent for too long."""

    data: bytes
    closed: bool

    @property
    def status(self) -> int | None:
        """Of the first answer."""
        return int(self.data.split()[1]) if self.data.startswith(b"HTTP/1.1 ") else None

    @property
    def answers(self) -> int:
        return len(re.findall(rb"HTTP/1\.1 \d{3} ", self.data))


class RawClient:
    """One connection to `url`."""

    def __init__(self, connection: socket.socket) -> None:
        self.socket = connection

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def drip(self, data: bytes, *, every_s: float) -> None:
        """Send byte by byte until the server hears no more."""
        for number in range(len(data)):
            try:
                self.socket.sendall(data[number : number + 1])
            except OSError:
                return
            time.sleep(every_s)

    def hear(self, *, within_s: float = _PATIENCE_S) -> Heard:
        """Read until the server closes; a connection that stays open is waited for so long."""
        self.socket.settimeout(within_s)
        data = bytearray()
        try:
            while part := self.socket.recv(65536):
                data += part
        except TimeoutError:
            return Heard(bytes(data), closed=False)
        except ConnectionError:
            pass
        return Heard(bytes(data), closed=True)


@contextmanager
def connected(url: str) -> Iterator[RawClient]:
    host, port = url.removeprefix("http://").rsplit(":", 1)
    with socket.create_connection((host, int(port)), timeout=_PATIENCE_S) as connection:
        yield RawClient(connection)


def ask(url: str, data: bytes, *, within_s: float = _PATIENCE_S) -> Heard:
    """Send `data` on a connection of its own and hear what comes back."""
    with connected(url) as client:
        client.send(data)
        return client.hear(within_s=within_s)


def get(path: str, *headers: bytes) -> bytes:
    """A GET that is its connection's last."""
    return request(b"GET", path, b"connection: close", *headers)


def post(path: str, body: bytes, *headers: bytes) -> bytes:
    """A POST that is its connection's last."""
    length = b"content-length: %d" % len(body)
    return request(b"POST", path, b"connection: close", length, *headers) + body


def request(method: bytes, path: str, *headers: bytes) -> bytes:
    lines = [b"%b %b HTTP/1.1" % (method, path.encode()), b"host: 127.0.0.1", *headers]
    return b"\r\n".join(lines) + b"\r\n\r\n"
