"""Which URLs may be taken for a replica: an operator's word is not a way to reach anything else."""

import ipaddress
import socket
from collections.abc import Iterable
from typing import NamedTuple
from urllib.parse import urlsplit

from app.errors import InvalidRequestError
from app.fleet.dns import LOOK_UP_S, addresses_of

_LONGEST_URL = 2048

IpAddress = ipaddress.IPv4Address | ipaddress.IPv6Address


def replica_url(text: str) -> str:
    """The URL in one form: without a trailing slash, host in lower case.

    Raises:
        InvalidRequestError: it isn't a plain http:// or https:// base URL.
    """
    if len(text) > _LONGEST_URL or not text.isascii() or any(c.isspace() for c in text):
        raise _refused("it must be a short ASCII URL without spaces")
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError as error:
        raise _refused(str(error)) from error
    if parts.scheme not in ("http", "https") or not parts.hostname or port == 0:
        raise _refused("it must start with http:// or https:// and name a host")
    if "@" in parts.netloc:
        raise _refused("it must hold no user name or password")
    if parts.query or parts.fragment or "?" in text or "#" in text:
        raise _refused("it must hold no query and no fragment")
    if ".." in parts.path or "%" in parts.path or "\\" in text:
        raise _refused("its path must be plain")
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    authority = host if port is None else f"{host}:{port}"
    return f"{parts.scheme}://{authority}{parts.path.rstrip('/')}"


class Listening(NamedTuple):
    """Where the gateway listens; port 0 is one that nobody knows yet."""

    host: str
    port: int


NOWHERE = Listening("127.0.0.1", 0)


async def require_reachable_kind(url: str, *, own: Listening) -> None:
    """Refuse addresses that can't be an engine: the gateway itself, and link-local ones.

    Link-local ones are where clouds keep their machines' credentials.

    Raises:
        InvalidRequestError: it is refused, or its host has no address.
    """
    host, port = _authority(url)
    try:
        found = await addresses_of(host, port)
    except TimeoutError as error:
        raise _refused(f"looking up {host} took longer than {LOOK_UP_S:g} s") from error
    except OSError as error:
        raise _refused(f"{host} has no address") from error
    problem = _problem(found, port, own)
    if problem is not None:
        raise _refused(problem)


async def problem_of_address(url: str, *, own: Listening) -> str | None:
    """The same, of any URL that requests go to; a name that has no address yet may get one."""
    try:
        host, port = _authority(url)
        return _problem(await addresses_of(host, port), port, own)
    except (OSError, ValueError):  # no address, in time; or no URL, which is told elsewhere
        return None


def problem_of_literal(url: str, *, own: Listening) -> str | None:
    """The same without asking any name server: of IP addresses and `localhost`."""
    try:
        host, port = _authority(url)
        addresses = ("127.0.0.1", "::1") if host == "localhost" else (host,)
        return _problem(addresses, port, own)
    except ValueError:  # a name, or no URL, which is told elsewhere
        return None


def is_link_local(text: str) -> bool:
    """Whether an address reaches no further than this link, or is a group's."""
    address = _unmapped(ipaddress.ip_address(text.partition("%")[0]))
    return address.is_link_local or address.is_multicast


def _authority(url: str) -> tuple[str, int]:
    parts = urlsplit(url)
    return parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80)


def _problem(addresses: Iterable[str], port: int, own: Listening) -> str | None:
    for text in addresses:
        if is_link_local(text):
            return f"{text} is a link-local or multicast address"
        if port == own.port and _is_own(_unmapped(ipaddress.ip_address(text)), own.host):
            return "it is this gateway itself"
    return None


def _unmapped(address: IpAddress) -> IpAddress:
    """::ffff:127.0.0.1 is 127.0.0.1."""
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return mapped or address


def _is_own(address: IpAddress, host: str) -> bool:
    """Whether who listens at `host` is reached there."""
    try:
        listens = ipaddress.ip_address(host)
    except ValueError:  # a name: loopback, or any of this machine's
        return _is_of_this_machine(address)
    if listens.is_unspecified:
        return _is_of_this_machine(address)
    # 0.0.0.0 is connected to by loopback.
    return address == listens or (address.is_unspecified and listens.is_loopback)


def _is_of_this_machine(address: IpAddress) -> bool:
    """Only its own addresses can be bound."""
    if address.is_unspecified or address.is_loopback:
        return True
    family = socket.AF_INET if address.version == 4 else socket.AF_INET6
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        try:
            probe.bind((str(address), 0))
        except OSError:
            return False
    return True


def _refused(problem: str) -> InvalidRequestError:
    return InvalidRequestError(f"this URL can't be a replica: {problem}", param="url")
