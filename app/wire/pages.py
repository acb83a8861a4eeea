"""What other people's web pages may do to a gateway without keys: nothing.

Where no key is needed, whatever reaches the port is the operator. A browser on the operator's
machine reaches it, too, for any page that it shows: a page may post to a loopback address without
asking first, and a name that its owner points to 127.0.0.1 makes page and gateway one site to the
browser (DNS rebinding). Browsers say truly where a request comes from; other clients don't say it.
"""

from collections.abc import Callable
from ipaddress import ip_address

from starlette.types import ASGIApp, Receive, Scope, Send

from app.errors import ForeignPageError
from app.refusing import error_answer
from app.settings import WireSettings

# For HTML that we make: it loads nothing, sends nothing, and is framed by nobody.
PAGE_HEADERS = {
    "cache-control": "no-store",
    "content-security-policy": (
        "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; "
        "img-src data: blob:; font-src data:; base-uri 'none'; form-action 'none'; "
        "frame-ancestors 'none'"
    ),
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
}

_KNOWN = 64


class PageGuard:
    """ASGI middleware; stands aside once there are keys, which no page can guess.

    As Host it takes loopback names, IP addresses and `wire.hosts`, wherever the gateway listens: in
    a container that is every interface, and a published port of the operator's loopback.

    Args:
        is_open: whether requests need no key.
    """

    def __init__(self, app: ASGIApp, *, is_open: Callable[[], bool], wire: WireSettings) -> None:
        self._app = app
        self._is_open = is_open
        self._hosts = frozenset(host.lower() for host in wire.hosts)
        self._known: set[str] = set()
        self._origins = frozenset(wire.origins)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """ASGI."""
        if scope["type"] == "http" and self._is_open():
            try:
                self._check(scope)
            except ForeignPageError as error:
                await error_answer(error)(scope, receive, send)
                return
        await self._app(scope, receive, send)

    def _check(self, scope: Scope) -> None:
        host = origin = None
        for name, value in scope["headers"]:
            if name == b"host":
                host = value.decode("latin-1").lower()
            elif name == b"origin":
                origin = value.decode("latin-1").lower()
        if host is not None and not self._is_known(host):
            raise ForeignPageError("Host", host, "FOREWORD_WIRE__HOSTS")
        if origin is None or origin in self._origins:
            return
        if origin.partition("://")[2] != host:
            raise ForeignPageError("Origin", origin, "FOREWORD_WIRE__ORIGINS")

    def _is_known(self, host: str) -> bool:
        """Whether a Host is taken; those that were lately aren't looked at again."""
        if host in self._known:
            return True
        if not self._is_ours(host):
            return False
        if len(self._known) >= _KNOWN:
            self._known.clear()
        self._known.add(host)
        return True

    def _is_ours(self, host: str) -> bool:
        name = host.rpartition("]")[0].lstrip("[") or host.partition(":")[0]
        if name == "localhost" or name.endswith(".localhost") or name in self._hosts:
            return True
        try:
            ip_address(name)
        except ValueError:
            return False
        return True  # rebinding takes a name
