"""Who sent a request: the tenant, the key's role, and what the tenant may use.

Set once for each request by `app.admission.authentication`; routes only read it.
"""

from dataclasses import dataclass, field
from enum import IntEnum, StrEnum

from starlette.requests import HTTPConnection

from app.errors import PermissionDeniedError

LOCAL_TENANT = "local"


class Role(StrEnum):
    """What a key may do.

    `user` uses the models and what its tenant owns; `admin` operates the deployment, and sees all
    tenants' figures; `monitor` reads metrics and readiness, nothing else.
    """

    USER = "user"
    ADMIN = "admin"
    MONITOR = "monitor"


class Priority(IntEnum):
    """Classes of requests in the admission queue, the most urgent first."""

    INTERACTIVE = 0
    NORMAL = 1
    BACKGROUND = 2

    @property
    def label(self) -> str:
        """As requests, keys and reports spell it."""
        return self.name.lower()

    @classmethod
    def of(cls, label: str) -> "Priority":
        """Raises KeyError: there is no such class."""
        return cls[label.upper()]


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantLimits:
    """What a tenant may use; None is without a limit.

    Attributes:
        requests_per_min, tokens_per_min: token buckets that hold a minute's worth.
        concurrent: requests that are queued or answered at a time.
        tokens_per_day: prompt and completion tokens between two midnights, UTC.
        max_output_tokens: most tokens of one answer (of all its choices together).
        max_prompt_tokens: longest prompt.
        weight: share of a busy engine, against other tenants' weights.
    """

    requests_per_min: int | None = None
    tokens_per_min: int | None = None
    concurrent: int | None = None
    tokens_per_day: int | None = None
    max_output_tokens: int | None = None
    max_prompt_tokens: int | None = None
    weight: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """Whoever holds the key of a request.

    Attributes:
        key_id: None where the deployment has no keys.
        ceiling: the most urgent class that the key's requests may be in.
    """

    tenant: str
    key_id: str | None = None
    role: Role = Role.USER
    ceiling: Priority = Priority.INTERACTIVE
    limits: TenantLimits = field(default_factory=TenantLimits)

    @property
    def is_admin(self) -> bool:
        """Whether it operates the deployment."""
        return self.role is Role.ADMIN


def caller_of(connection: HTTPConnection) -> Caller:
    """Whoever sent a request."""
    caller = connection.scope["state"]["caller"]
    assert isinstance(caller, Caller)
    return caller


def tenant_of(connection: HTTPConnection) -> str:
    """The tenant whose things a request is about."""
    return caller_of(connection).tenant


def require_admin(connection: HTTPConnection) -> Caller:
    """The caller, who operates the deployment.

    Raises:
        PermissionDeniedError: the key isn't an admin's.
    """
    return _require(connection, Role.ADMIN)


def require_monitor(connection: HTTPConnection) -> Caller:
    """The caller, who may see the deployment's figures: a monitor's key or an admin's.

    Raises:
        PermissionDeniedError: the key is a user's.
    """
    return _require(connection, Role.MONITOR, Role.ADMIN)


def _require(connection: HTTPConnection, *roles: Role) -> Caller:
    caller = caller_of(connection)
    if caller.role not in roles:
        raise PermissionDeniedError(caller.role.value, roles[0].value)
    return caller
