"""API keys: how one is made, recognised and described. Pure.

A key is `fw-` and 256 random bits. Only its HMAC is kept, under a key derived from the deployment's
secret: whoever reads the database can't use a key, and whoever can write into it can't make one.
"""

import hmac
import re
import secrets
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from app.callers import Priority, Role
from app.errors import KeyRefusedError

PREFIX = "fw-"
_BYTES = 32
_PURPOSE = b"foreword: digests of API keys"
_TENANT = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:@-]{0,127}")
# What the ledger calls tenants that it no longer tells apart.
_RESERVED = ("other",)
_MAX_NAME = 255
_MOST_S = 10 * 365 * 86_400


class KeyStatus(StrEnum):
    """Whether a key opens anything."""

    ACTIVE = "active"
    EXPIRED = "expired"
    REVOKED = "revoked"


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyRecord:
    """All that is known of a key; the key itself isn't.

    Attributes:
        hint: its end, by which its holder knows it.
        priority: the most urgent class that its requests may be in.
        replaced_by: the key that it was rotated to; it holds until `expires_at` all the same.
        last_used_at: to the minute; None where it never was.
    """

    id: str
    digest: str
    tenant: str
    name: str
    role: Role
    priority: Priority
    hint: str
    created_at: datetime
    expires_at: datetime | None = None
    revoked_at: datetime | None = None
    replaced_by: str | None = None
    last_used_at: datetime | None = None

    def status(self, now: datetime) -> KeyStatus:
        """How it stands at a moment."""
        if self.revoked_at is not None:
            return KeyStatus.REVOKED
        if self.expires_at is not None and self.expires_at <= now:
            return KeyStatus.EXPIRED
        return KeyStatus.ACTIVE


@dataclass(frozen=True, slots=True, kw_only=True)
class NewKey:
    """A key that is asked for; `expires_s` is in seconds from now, None never."""

    tenant: str
    name: str = ""
    role: Role = Role.USER
    priority: Priority = Priority.INTERACTIVE
    expires_s: float | None = None

    def __post_init__(self) -> None:
        check_tenant(self.tenant)
        if len(self.name) > _MAX_NAME or not self.name.isprintable():
            raise KeyRefusedError(f"a key's name has at most {_MAX_NAME} printable characters")
        check_lifetime(self.expires_s)


class KeyDigests:
    """Digests under the deployment's secret."""

    def __init__(self, secret: bytes) -> None:
        self._key = hmac.digest(secret, _PURPOSE, "sha256")

    def of(self, key: bytes) -> str:
        """64 hex digits."""
        return hmac.digest(self._key, key, "sha256").hex()


def make_key() -> str:
    """A key that nobody has."""
    return PREFIX + secrets.token_urlsafe(_BYTES)


def make_key_id() -> str:
    """The name of a key, which is no secret."""
    return f"key_{secrets.token_hex(8)}"


def hint_of(key: str) -> str:
    """What is shown of a key: too little to help anybody guess it."""
    return f"{PREFIX}…{key[-4:]}"


def check_tenant(tenant: str) -> None:
    """Raises KeyRefusedError: that can't be a tenant's name."""
    if not _TENANT.fullmatch(tenant) or tenant in _RESERVED:
        raise KeyRefusedError(
            f"{tenant!r} can't be a tenant: take letters, digits and . _ : @ -, at most 128, "
            f"beginning with a letter or digit, and not {_RESERVED[0]!r}"
        )


def check_lifetime(seconds: float | None) -> None:
    """Raises KeyRefusedError: a key can't live that long, or not at all."""
    if seconds is not None and not 0 < seconds <= _MOST_S:
        raise KeyRefusedError("a key expires after more than 0 s and at most ten years")
