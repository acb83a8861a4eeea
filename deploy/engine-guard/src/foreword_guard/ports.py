"""Whether somebody listens at the tier's address."""

import socket
import time
from urllib.parse import urlsplit

_CONNECT_S = 0.5
_PAUSE_S = 0.25


def tcp_address(url: str) -> tuple[str, int] | None:
    """Host and port of a `tcp://` URL; None for another transport."""
    parts = urlsplit(url)
    if parts.scheme != "tcp" or parts.hostname is None or parts.port is None:
        return None
    return parts.hostname, parts.port


def refuses(host: str, port: int) -> bool:
    """True when the port is closed for sure: no process listens there."""
    try:
        socket.create_connection((host, port), timeout=_CONNECT_S).close()
    except ConnectionRefusedError:
        return True
    except OSError:
        return False
    return False


def opens_within(url: str, limit_s: float) -> bool:
    """Wait until somebody listens at a `tcp://` URL; for another transport that isn't known."""
    address = tcp_address(url)
    if address is None:
        return True
    deadline_s = time.monotonic() + limit_s
    while True:
        try:
            socket.create_connection(address, timeout=_CONNECT_S).close()
            return True
        except OSError:
            if time.monotonic() > deadline_s:
                return False
        time.sleep(_PAUSE_S)
