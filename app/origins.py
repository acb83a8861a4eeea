"""Web origins, in the one form that browsers send them in. Pure."""

import re
from urllib.parse import urlsplit

# Apps in a shell of their own have schemes of their own: `capacitor://localhost`.
_ORIGIN = re.compile(r"[a-z][a-z0-9+.-]*://(\[[0-9a-f:.]+\]|[a-z0-9._-]+)(:[0-9]{1,5})?")
_USUAL_PORTS = {"http": 80, "https": 443}


def web_origin(text: str) -> str:
    """`https://name[:port]`: in lower case, without the scheme's own port or a final slash.

    Raises:
        ValueError: it is none, or stands for many.
    """
    if text == "*":
        raise ValueError("'*' would let every web page call: name each origin, https://name[:port]")
    origin = text.lower().removesuffix("/")
    try:
        parts = urlsplit(origin)
        port = parts.port
    except ValueError:
        port = 0
    if not _ORIGIN.fullmatch(origin) or port == 0:
        raise ValueError(
            f"{text!r} isn't an origin as browsers send it: https://name[:port], without a path "
            "and without wildcards; names beyond ASCII as xn--…"
        )
    if port is not None and port == _USUAL_PORTS.get(parts.scheme):
        return origin.removesuffix(f":{port}")
    return origin
