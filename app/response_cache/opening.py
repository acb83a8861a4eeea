"""The gateway's response cache, where its settings ask for one."""

import hmac

import sqlalchemy as sa

from app.response_cache.cache import ResponseCache
from app.response_cache.counts import ResponseCacheCounts
from app.response_cache.store import AnswerStore
from app.settings import ResponseCacheSettings

# Keys and salts are made with one secret, and are never alike.
_PURPOSE = b"foreword response cache"


def open_response_cache(
    settings: ResponseCacheSettings,
    database: sa.Engine,
    *,
    secret: bytes,
    counts: ResponseCacheCounts,
) -> ResponseCache | None:
    """None where it is off."""
    if not settings.enabled:
        return None
    return ResponseCache(
        settings,
        AnswerStore(database),
        secret=hmac.digest(secret, _PURPOSE, "sha256"),
        counts=counts,
    )
