"""Shadowing as the settings say."""

import asyncio
from contextlib import ExitStack
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from app.errors import InvalidSettingError
from app.shadow.backlog import Backlog
from app.shadow.counts import ShadowCounts
from app.shadow.rows import ShadowRows
from app.shadow.shadow import Shadow
from app.shadow.target import Target

if TYPE_CHECKING:
    from contextlib import AsyncExitStack

    from app.settings import Settings


def open_shadow(
    settings: "Settings",
    stack: "AsyncExitStack | ExitStack",
    *,
    secret: bytes,
    counts: ShadowCounts,
) -> Shadow | None:
    """None where no target is named, or nothing is to be mirrored.

    Raises:
        InvalidSettingError: the target's URL or key can't be used.
    """
    chosen = settings.shadow
    if chosen.url is None or chosen.fraction == 0:
        return None
    key = chosen.api_key.get_secret_value() if chosen.api_key else None
    _check(chosen.url, key)
    target = Target(chosen.url, api_key=key, timeout_s=chosen.timeout_s, most=chosen.concurrency)
    shadow = Shadow(
        settings=chosen,
        target=target,
        rows=ShadowRows(settings.home / "shadow", keep_bytes=chosen.keep_mb * 2**20),
        counts=counts,
        backlog=Backlog(most=chosen.queued, most_bytes=chosen.queued_mb * 2**20),
        secret=secret,
        changed=asyncio.Event(),
    )
    stack.callback(shadow.close)
    return shadow


def _check(url: str, key: str | None) -> None:
    try:
        parts = urlsplit(url)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        usable = False
    if not usable or not url.isascii() or any(c.isspace() or c in "?#" for c in url):
        problem = "it must be a plain http:// or https:// base URL, such as http://gpu-2:30000"
        raise InvalidSettingError("shadow.url", problem)
    if "@" in parts.netloc:
        problem = "it must hold no user name or password; FOREWORD_SHADOW__API_KEY is for that"
        raise InvalidSettingError("shadow.url", problem)
    if key is not None and not (key.isascii() and key.isprintable() and key and " " not in key):
        raise InvalidSettingError("shadow.api_key", "it must be printable ASCII without spaces")
