"""Replicas by DNS: all addresses of one name, as a headless service or round-robin record has."""

import asyncio
import ipaddress
import socket
from collections.abc import Awaitable, Callable, Iterable

from app.errors import InvalidSettingError

LOOK_UP_S = 5.0
_LOOKS_MISSED = 3

Resolve = Callable[[str, int], Awaitable[list[str]]]


async def addresses_of(host: str, port: int) -> list[str]:
    """All IPv4 and IPv6 addresses of a host, as the system finds them.

    Raises:
        TimeoutError: it took longer than `LOOK_UP_S`.
        OSError: there is no such host, or no name server answers.
    """
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(LOOK_UP_S):
            found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except UnicodeError as error:  # a label that no host name can have
        raise OSError(f"{host!r} is not a host name") from error
    # An address of one link only (fe80::1%eth0) carries its zone; no URL can.
    return [str(entry[4][0]).partition("%")[0] for entry in found]


class DnsDiscovery:
    """Looks up all IPv4 and IPv6 addresses of a name; the same port on each.

    An address goes when several looks in a row didn't name it, since servers cap and rotate long
    answers. A name that isn't found is a look that failed: the replicas stay.

    Args:
        resolve: tells all addresses, or raises OSError.
        looks_missed: looks in a row without an address, until it is gone.
    """

    def __init__(
        self,
        host: str,
        port: int,
        *,
        resolve: Resolve = addresses_of,
        looks_missed: int = _LOOKS_MISSED,
    ) -> None:
        self._host = host
        self._port = port
        self._resolve = resolve
        self._looks_missed = looks_missed
        self._missed: dict[str, int] = {}
        self._problem: str | None = None

    @classmethod
    def parse(cls, text: str) -> "DnsDiscovery":
        """From `HOST:PORT`.

        Raises:
            InvalidSettingError: it isn't of that form.
        """
        host, _, port = text.rpartition(":")
        if not host or "/" in text or not port.isdecimal() or not 0 < int(port) < 65536:
            raise InvalidSettingError(
                "replicas.dns", f"{text!r} isn't HOST:PORT, as in engines.internal:30000"
            )
        return cls(host, int(port))

    @property
    def problem(self) -> str | None:
        """Why the last look failed."""
        return self._problem

    async def look(self) -> frozenset[str]:
        """The addresses' URLs."""
        try:
            found = await self._resolve(self._host, self._port)
        except TimeoutError:
            self._problem = f"looking up {self._host} took longer than {LOOK_UP_S:g} s"
        except OSError as error:
            self._problem = f"{self._host} can't be looked up: {error.strerror or error}"
        else:
            self._problem = None
            self._settle(address_url(address, self._port) for address in found)
        return frozenset(self._missed)

    async def aclose(self) -> None:
        """Nothing to drop."""

    def _settle(self, named: Iterable[str]) -> None:
        for url in self._missed:
            self._missed[url] += 1
        self._missed |= dict.fromkeys(named, 0)
        for url in [u for u, missed in self._missed.items() if missed >= self._looks_missed]:
            del self._missed[url]


def address_url(address: str, port: int) -> str:
    """`http://` URL of an IP address, an IPv6 one in brackets.

    Raises:
        ValueError: it is no address.
    """
    host = f"[{address}]" if ipaddress.ip_address(address).version == 6 else address
    return f"http://{host}:{port}"
