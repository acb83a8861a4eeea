"""The keys in memory: a request is recognised without asking the database.

Every gateway looks several times a second whether keys or limits were changed, by whichever
gateway, and then reads them all. While the database is away, what was last read holds.
"""

import hmac
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime

import anyio
import sqlalchemy as sa
import structlog

from app.admission.keys import PREFIX, KeyRecord
from app.admission.store import AdmissionStore, Holdings
from app.callers import LOCAL_TENANT, Caller, Role, TenantLimits
from app.errors import AuthenticationError

_LOOK_S = 0.5
_USED_S = 60.0
# Longer than any key: nobody makes us digest a megabyte.
_MAX_KEY = 256


@dataclass(frozen=True, slots=True)
class _Held:
    digest: str
    caller: Caller
    expires_at: float | None


class KeyRing:
    """Recognises keys.

    Args:
        open_without_keys: whether requests without a key are the operator's own, as long as there
            never was a key: on loopback, or where something else keeps strangers out.
        defaults: limits of tenants that have none of their own.
        now: the time, in seconds since 1970.
    """

    def __init__(
        self,
        store: AdmissionStore,
        *,
        open_without_keys: bool,
        defaults: TenantLimits,
        now: Callable[[], float] = time.time,
    ) -> None:
        self.store = store
        self._open_without_keys = open_without_keys
        self._defaults = defaults
        self._now = now
        self._revision = -1
        self.changes = 0
        """How often keys or limits were read: what was recognised before may hold no more."""
        self._expiries: dict[str, float] = {}
        self._held: dict[str, _Held] = {}
        self._limits: Mapping[str, TenantLimits] = {}
        self._local: Caller | None = None
        self._used: dict[str, datetime] = {}
        self._log = structlog.get_logger()
        self.problem: str | None = None

    @property
    def is_open(self) -> bool:
        """Whether requests need no key."""
        return self._local is not None

    def limits_of(self, tenant: str) -> TenantLimits:
        """A tenant's own limits, else those of the settings."""
        return self._limits.get(tenant, self._defaults)

    def count_of(self, tenant: str) -> int:
        """How many keys of a tenant hold."""
        now = self._now()
        return sum(
            held.caller.tenant == tenant and (held.expires_at is None or held.expires_at > now)
            for held in self._held.values()
        )

    def authenticate(self, authorization: bytes | None) -> Caller:
        """Who sends this `Authorization` header; None is a request without one.

        Raises:
            AuthenticationError: nobody does.
        """
        if self._local is not None:
            return self._local
        if authorization is None:
            raise AuthenticationError("no API key was sent")
        scheme, _, key = authorization.partition(b" ")
        if scheme.lower() != b"bearer":
            raise AuthenticationError("the Authorization header is not a bearer's")
        return self._caller(key.strip())

    def still_holds(self, caller: Caller, as_of: int) -> bool:
        """Whether a caller that was recognised when there were `as_of` changes is so again."""
        if as_of != self.changes:
            return False
        key_id = caller.key_id
        if key_id is None:
            return True
        expires_at = self._expiries.get(key_id)
        if expires_at is not None and expires_at <= self._now():
            return False
        if key_id not in self._used:
            self._used[key_id] = datetime.fromtimestamp(self._now(), UTC)
        return True

    def refresh(self) -> None:
        """Read what was changed since the last time. Blocks."""
        if self.store.revision() != self._revision:
            self._take(self.store.load())

    async def refresh_now(self) -> None:
        """The same beside the event loop: after a change of our own, which then holds at once."""
        await anyio.to_thread.run_sync(self.refresh)

    async def watch(self) -> None:
        """Look for changes, for ever; note now and then which keys are in use."""
        noted = time.monotonic()
        while True:
            await anyio.sleep(_LOOK_S)
            try:
                await self.refresh_now()
                if time.monotonic() - noted >= _USED_S:
                    noted = time.monotonic()
                    await self.note_used()
            except sa.exc.SQLAlchemyError as error:
                if self.problem is None:
                    self._log.warning("keys_unreadable", problem=type(error).__name__)
                self.problem = (
                    "API keys can't be read from the database, so those that were made or revoked "
                    f"since then are not known here ({type(error).__name__})"
                )
            else:
                self.problem = None

    async def note_used(self) -> None:
        """Write down which keys were used since the last time."""
        used, self._used = self._used, {}
        if not used:
            return
        try:
            await anyio.to_thread.run_sync(self.store.used, used)
        except sa.exc.SQLAlchemyError:
            self._used = used | self._used
            raise

    def _caller(self, key: bytes) -> Caller:
        held = self._find(key) if len(key) <= _MAX_KEY else None
        if held is None:
            raise AuthenticationError("the API key is not known here, or was revoked")
        now = self._now()
        if held.expires_at is not None and held.expires_at <= now:
            raise AuthenticationError("the API key has expired")
        key_id = held.caller.key_id
        if key_id is not None and key_id not in self._used:
            self._used[key_id] = datetime.fromtimestamp(now, UTC)
        return held.caller

    def _find(self, key: bytes) -> _Held | None:
        """The digest finds it, so that no time taken tells anything of a key; compared all over."""
        if not key.startswith(PREFIX.encode()):
            return None
        digest = self.store.digests.of(key)
        held = self._held.get(digest)
        if held is None or not hmac.compare_digest(held.digest, digest):
            return None
        return held

    def _take(self, holdings: Holdings) -> None:
        self._limits = holdings.limits
        self._held = {
            record.digest: self._hold(record)
            for record in holdings.keys
            if record.revoked_at is None
        }
        local = Caller(tenant=LOCAL_TENANT, role=Role.ADMIN)
        is_open = self._open_without_keys and not holdings.keys
        self._local = replace(local, limits=self.limits_of(LOCAL_TENANT)) if is_open else None
        self._revision = holdings.revision
        self._expiries = {
            held.caller.key_id: held.expires_at
            for held in self._held.values()
            if held.caller.key_id is not None and held.expires_at is not None
        }
        self.changes += 1

    def _hold(self, record: KeyRecord) -> _Held:
        caller = Caller(
            tenant=record.tenant,
            key_id=record.id,
            role=record.role,
            ceiling=record.priority,
            limits=self.limits_of(record.tenant),
        )
        expires = None if record.expires_at is None else record.expires_at.timestamp()
        return _Held(record.digest, caller, expires)
