"""Keys, limits and the queue as the settings say."""

import math
import time
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

import sqlalchemy as sa

from app.admission.admission import Admission
from app.admission.keyring import KeyRing
from app.admission.store import AdmissionStore
from app.admission.turns import Turns
from app.admission.usage import DailyUse
from app.callers import TenantLimits
from app.errors import InvalidSettingError
from app.fleet.fleet import Fleet
from app.metrics import Metrics
from app.replica import Replica
from app.settings import Settings
from app.stack.ports import is_loopback

if TYPE_CHECKING:
    from app.admission.shared import SharedLimits

# Where an engine doesn't say how many requests it runs together, or none is there to say it.
_UNKNOWN = 256
_WAITING_PART = 4
_LOOK_S = 0.05


def open_keys(settings: Settings, database: sa.Engine, secret: bytes) -> KeyRing:
    """The keys, as the database has them now."""
    gateway = settings.gateway
    keys = KeyRing(
        AdmissionStore(database, secret),
        open_without_keys=is_loopback(gateway.host) or gateway.allow_without_keys,
        defaults=TenantLimits(**settings.limits.model_dump()),
    )
    keys.refresh()
    return keys


def open_admission(
    settings: Settings,
    database: sa.Engine,
    fleet: Fleet,
    metrics: Metrics,
    stack: AsyncExitStack,
) -> Admission:
    """The door, with Redis behind it where the settings name one.

    Raises:
        InvalidSettingError: that is not Redis's URL.
    """
    told = settings.admission
    most = told.in_flight
    turns = Turns(
        (lambda: most) if most else _Room(fleet),
        queued=told.queued,
        longest_wait_s=told.longest_wait_s,
    )
    use = DailyUse(database)
    use.sync()
    shared = _shared(settings, stack)
    return Admission(use, turns, counts=metrics, shared=shared)


class _Room:
    """`room`, looked at again after a moment: no engine gets ready, or goes, more often."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        self._until = -math.inf
        self._room = 0

    def __call__(self) -> int:
        now = time.monotonic()
        if now >= self._until:
            self._until, self._room = now + _LOOK_S, room(self._fleet)
        return self._room


def room(fleet: Fleet) -> int:
    """Requests that all replicas run together, and a quarter more, so that none waits for work.

    Where no replica takes requests there is room too: they are then told so at once.
    """
    running = 0
    for replica in fleet.candidates():
        running += _running(replica)
    return running + -(-running // _WAITING_PART) if running else _UNKNOWN


def _running(replica: Replica) -> int:
    """Most requests that a replica runs together."""
    seen = replica.seen
    told = None if seen is None else seen.info.settings.get("max_running_requests")
    return told if isinstance(told, int) and told > 0 else _UNKNOWN


def _shared(settings: Settings, stack: AsyncExitStack) -> "SharedLimits | None":
    url = settings.gateway.redis_url
    if url is None:
        return None
    from app.admission.shared import SharedLimits  # its client takes memory and time to import

    try:
        shared = SharedLimits(url.get_secret_value())
    except ValueError as error:
        raise InvalidSettingError("gateway.redis_url", f"not a redis:// URL: {error}") from error
    stack.push_async_callback(shared.close)
    return shared
