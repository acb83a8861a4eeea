"""Is it up? One short question to a server, by HTTP or by Redis' own protocol.

Straight to the address: a proxy that the user's environment names is for the outside world, and
what is asked here is a neighbour.
"""

import http.client
import json
import socket
from dataclasses import dataclass
from typing import Any, BinaryIO
from urllib.parse import urlsplit


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpAnswer:
    """What came back: ``status`` is None if nothing did, and ``problem`` says why."""

    status: int | None
    body: bytes = b""
    problem: str = ""

    @property
    def good(self) -> bool:
        return self.status == http.client.OK

    def json(self) -> Any:
        """The parsed body, or None if it is not JSON."""
        try:
            return json.loads(self.body)
        except ValueError:
            return None


def get(url: str, *, timeout_s: float, key: str | None = None) -> HttpAnswer:
    """GETs a URL; never raises for what a server or network does.

    Args:
        key: an API key of Foreword's, where the server is a gateway.
    """
    parts = urlsplit(url)
    connect = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    connection = connect(parts.hostname or "", parts.port, timeout=timeout_s)
    try:
        authorization = {"Authorization": f"Bearer {key}"} if key else {}
        headers = {"Connection": "close", **authorization}
        connection.request("GET", parts.path or "/", headers=headers)
        response = connection.getresponse()
        return HttpAnswer(status=response.status, body=response.read())
    except (OSError, http.client.HTTPException) as exc:
        return HttpAnswer(status=None, problem=str(exc) or type(exc).__name__)
    finally:
        connection.close()


def redis_answers(host: str, port: int, *, timeout_s: float) -> bool:
    """Whether a Redis server replies to PING (``NOAUTH`` is a reply too)."""
    try:
        with socket.create_connection((host, port), timeout=timeout_s) as connection:
            connection.sendall(b"PING\r\n")
            return connection.recv(64).startswith((b"+PONG", b"-NOAUTH"))
    except OSError:
        return False


def redis_setting(host: str, port: int, name: str, *, timeout_s: float) -> str | None:
    """One of a Redis server's settings; None where it doesn't tell (a password, no CONFIG)."""
    try:
        with socket.create_connection((host, port), timeout=timeout_s) as connection:
            connection.sendall(f"CONFIG GET {name}\r\n".encode())
            with connection.makefile("rb") as answer:
                return _second_of_pair(answer)
    except (OSError, ValueError):
        return None


def _second_of_pair(answer: BinaryIO) -> str | None:
    """RESP2: `*2`, then name and value, each as `$length` and the bytes."""
    if answer.readline().strip() != b"*2":
        return None
    value = b""
    for _ in range(2):
        length = int(answer.readline()[1:])
        value = answer.read(length + 2)[:length]
    return value.decode()
