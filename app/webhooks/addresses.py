"""Where a webhook's request may go: not to what only this machine or its network can reach."""

import ipaddress
import socket
from dataclasses import dataclass
from urllib.parse import urlsplit

import anyio

from app.errors import WebhookRefusedError
from app.fleet.addresses import is_link_local


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """An endpoint that may be asked, at the address that was looked at: names may change.

    Attributes:
        url: with the address in place of the name.
        host: the Host header.
        name: what its certificate is to name; None: no TLS.
    """

    url: str
    host: str
    name: str | None


async def find_target(url: str, *, allow_private: bool) -> Target:
    """Looks the endpoint's name up, and takes an address only if all of them may be asked.

    Raises:
        WebhookRefusedError: it mayn't be asked; says why.
    """
    check_url(url, allow_private=allow_private)
    parts = urlsplit(url)
    name, port = parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80)
    try:
        found = await anyio.getaddrinfo(name, port, type=socket.SOCK_STREAM)
    except OSError as error:
        raise WebhookRefusedError(url, f"there is no address of {name!r}") from error
    addresses = [str(entry[4][0]) for entry in found]
    for address in addresses:
        _check_address(url, name, address, allow_private=allow_private)
    first = addresses[0]
    spelled = f"[{first}]" if ":" in first else first
    at = parts._replace(netloc=f"{spelled}:{port}", fragment="").geturl()
    host = parts.netloc.rpartition("@")[2]
    return Target(url=at, host=host, name=name if parts.scheme == "https" else None)


def check_url(url: str, *, allow_private: bool) -> None:
    """What can be said of a URL without looking its name up.

    Raises:
        WebhookRefusedError: it mayn't be asked.
    """
    try:
        parts = urlsplit(url)
        name, _ = parts.hostname, parts.port
    except ValueError as error:
        raise WebhookRefusedError(url, "it is no URL") from error
    if parts.scheme not in (("http", "https") if allow_private else ("https",)) or not name:
        raise WebhookRefusedError(url, "it must be an https:// URL")
    if parts.username is not None or parts.password is not None:
        raise WebhookRefusedError(url, "it has a user or a password in it; signatures prove enough")
    if _is_address(name):
        _check_address(url, name, name, allow_private=allow_private)


def _check_address(url: str, name: str, address: str, *, allow_private: bool) -> None:
    if is_link_local(address):  # where clouds keep their machines' credentials
        raise WebhookRefusedError(url, f"{name!r} is {address}, a link-local or multicast address")
    if not allow_private and not is_public(address):
        raise WebhookRefusedError(url, f"{name!r} is {address}, which isn't a public address")


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def is_public(address: str) -> bool:
    """Whether anybody on the internet would reach the same by it."""
    found = ipaddress.ip_address(address.partition("%")[0])
    if isinstance(found, ipaddress.IPv6Address):
        inner = found.ipv4_mapped or found.sixtofour or (found.teredo and found.teredo[1])
        if inner:
            return is_public(str(inner))
        if found in _NAT64:
            return is_public(str(ipaddress.IPv4Address(int(found) & 0xFFFFFFFF)))
    return found.is_global and not found.is_multicast and not found.is_reserved


_NAT64 = ipaddress.ip_network("64:ff9b::/96")
