"""How containers' sizes and ports are written."""

import re

from cache.engine_config.view import Port, Written

DOCKER_SHM_BYTES = 64 << 20
"""/dev/shm of a container that asks for no other size."""

_SIZE = re.compile(r"([0-9]{1,15}(?:\.[0-9]{1,9})?)\s*([kmgt]?)i?b?", re.IGNORECASE)
_WHOLE = re.compile(r"[0-9]{1,9}")
_POWERS = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4}
_PORT = re.compile(
    r"(?:(?P<address>\[[^\]]*\]|[^:]*):(?=[^:]*:))?(?:[^:]*:)?(?P<container>[0-9]{1,5})(?:/(?:tcp|udp))?"
)


def size_bytes(text: str) -> int | None:
    """A size as Docker and Kubernetes write it (`20gb`, `16Gi`); None if it can't be known."""
    found = _SIZE.fullmatch(text.strip())
    if found is None:
        return None
    return int(float(found[1]) * 1024 ** _POWERS[found[2].lower()])


def published(text: str, at: Written) -> Port | None:
    """A published port: `8000`, `8000:80`, `127.0.0.1:8000:80`; None if it can't be known."""
    found = _PORT.fullmatch(text)
    if found is None or "$" in (found["address"] or ""):
        return None
    return Port(address=found["address"] or "", container_port=whole(found["container"]), at=at)


def whole(text: str | None) -> int | None:
    """A whole number, or None."""
    return int(text) if text and _WHOLE.fullmatch(text) else None
