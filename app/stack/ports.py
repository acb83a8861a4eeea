"""Ports on this machine."""

import contextlib
import errno
import ipaddress
import random
import socket
from pathlib import Path

from app.stack.errors import PortTakenError

LOOPBACK = "127.0.0.1"
_RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")
_LOWEST = 10_000
_TRIES = 100


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach the address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def free_ports(count: int) -> list[int]:
    """Different loopback ports that are free now.

    They lie below those that the kernel gives to connections going out, so that none of these takes
    one before its owner listens. They are held all at once while choosing; after that another
    program may still ask for one, which the process that wanted it reports when it starts.
    """
    with contextlib.ExitStack() as held:
        sockets = [held.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            _bind_any(each)
        return [int(each.getsockname()[1]) for each in sockets]


def _bind_any(free: socket.socket) -> None:
    for port in _candidates():
        try:
            free.bind((LOOPBACK, port))
        except OSError as exc:
            if exc.errno != errno.EADDRINUSE:
                raise
        else:
            return
    free.bind((LOOPBACK, 0))


def _candidates() -> list[int]:
    try:
        below = int(_RANGE.read_text("ascii").split()[0])
    except FileNotFoundError:  # Not Linux: the kernel's own choice has to do.
        return []
    ports = range(_LOWEST, below)
    # Of the system: two processes with the same seed would take turns at the same ports.
    return random.SystemRandom().sample(ports, min(_TRIES, len(ports)))


def claim_port(host: str, port: int) -> int:
    """The asked port if one can listen on it, or a free one for 0.

    Raises:
        PortTakenError: another program listens there.
    """
    with socket.socket(_family(host)) as probe:
        # As servers do: an old connection in TIME_WAIT is no reason to refuse.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as exc:
            if exc.errno == errno.EADDRINUSE:
                raise PortTakenError(host=host, port=port) from exc
            raise
        return int(probe.getsockname()[1])


def _family(host: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in host else socket.AF_INET
