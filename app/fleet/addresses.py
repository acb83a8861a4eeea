"""Which URLs may be taken for a replica: an operator's word is not a way to reach anything else."""

import ipaddress
import socket
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


async def require_reachable_kind(url: str, *, own_port: int | None) -> None:
    """Refuse addresses that can't be an engine: the gateway itself, and link-local ones.

    Link-local ones are where clouds keep their machines' credentials.

    Raises:
        InvalidRequestError: it is refused, or its host has no address.
    """
    parts = urlsplit(url)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    for address in await _addresses(parts.hostname or "", port):
        if address.is_link_local or address.is_multicast:
            raise _refused(f"{address} is a link-local or multicast address")
        if port == own_port and _is_own(address):
            raise _refused("it is this gateway itself")


async def _addresses(host: str, port: int) -> set[IpAddress]:
    try:
        found = await addresses_of(host, port)
    except TimeoutError as error:
        raise _refused(f"looking up {host} took longer than {LOOK_UP_S:g} s") from error
    except OSError as error:
        raise _refused(f"{host} has no address") from error
    return {_unmapped(ipaddress.ip_address(address)) for address in found}


def _unmapped(address: IpAddress) -> IpAddress:
    """::ffff:127.0.0.1 is 127.0.0.1."""
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return mapped or address


def _is_own(address: IpAddress) -> bool:
    """Whether it is one of this machine's addresses: only those can be bound."""
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
