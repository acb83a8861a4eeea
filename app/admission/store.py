"""Keys and limits in the database. Every change is audited in its own transaction.

All of it blocks: call it in a worker thread.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import sqlalchemy as sa

from app.admission.audit import write_audit
from app.admission.keys import (
    KeyDigests,
    KeyRecord,
    KeyStatus,
    NewKey,
    check_lifetime,
    check_tenant,
    hint_of,
    make_key,
    make_key_id,
)
from app.callers import LOCAL_TENANT, Caller, Priority, Role, TenantLimits
from app.errors import KeyNotFoundError, KeyRefusedError
from app.tables import admission_revision, api_keys, tenant_limits

# Whoever works beside the gateway, on the database itself.
OPERATOR = Caller(tenant=LOCAL_TENANT, role=Role.ADMIN)


@dataclass(frozen=True, slots=True, kw_only=True)
class CreatedKey:
    """A key that was just made: the only moment at which it can be read."""

    key: str
    record: KeyRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class Holdings:
    """All keys and limits, as of one revision."""

    revision: int
    keys: tuple[KeyRecord, ...]
    limits: Mapping[str, TenantLimits]


class AdmissionStore:
    """The tables, and nothing kept in memory."""

    def __init__(self, database: sa.Engine, secret: bytes) -> None:
        self.database = database
        self.digests = KeyDigests(secret)

    def revision(self) -> int:
        """Counts up with each change."""
        with self.database.connect() as connection:
            return connection.scalar(sa.select(admission_revision.c.revision)) or 0

    def load(self) -> Holdings:
        """Everything. Read after the revision: what changes meanwhile is read again next time."""
        revision = self.revision()
        with self.database.connect() as connection:
            keys = tuple(_record(row) for row in connection.execute(_ALL_KEYS).mappings())
            rows = connection.execute(sa.select(tenant_limits)).mappings().all()
        limits = {row["tenant"]: _limits(row) for row in rows}
        return Holdings(revision=revision, keys=keys, limits=limits)

    def all_keys(self, *, tenant: str | None = None) -> list[KeyRecord]:
        """All keys, those that no longer hold too, oldest first."""
        statement = _ALL_KEYS if tenant is None else _ALL_KEYS.where(api_keys.c.tenant == tenant)
        with self.database.connect() as connection:
            return [_record(row) for row in connection.execute(statement).mappings()]

    def key(self, key_id: str) -> KeyRecord:
        """Raises KeyNotFoundError."""
        with self.database.connect() as connection:
            return _find(connection, key_id)

    def create(self, new: NewKey, *, by: Caller) -> CreatedKey:
        """Make a key.

        Raises:
            KeyRefusedError: it is the first, and not an admin's: nobody could make a second.
        """
        now = datetime.now(UTC)
        with self._changing() as connection:
            first = connection.scalar(sa.select(api_keys.c.id).limit(1)) is None
            if first and new.role is not Role.ADMIN:
                raise KeyRefusedError(
                    "the first key must have the role admin: from then on every request needs a "
                    "key, and only an admin's makes others"
                )
            made = self._insert(connection, new, now)
            details = {"tenant": new.tenant, "role": new.role.value, "name": new.name}
            write_audit(connection, by, "key.create", made.record.id, details)
        return made

    def rotate(
        self, key_id: str, *, grace_s: float, expires_s: float | None = None, by: Caller
    ) -> CreatedKey:
        """Make a key like another, which then holds for `grace_s` more seconds.

        Without `expires_s` the new one lives as long as the old one was meant to.

        Raises:
            KeyNotFoundError: there is no such key.
            KeyRefusedError: it doesn't hold any more, or was rotated before.
        """
        check_lifetime(expires_s)
        now = datetime.now(UTC)
        with self._changing() as connection:
            old = _find(connection, key_id)
            if old.status(now) is not KeyStatus.ACTIVE or old.replaced_by is not None:
                state = "rotated" if old.replaced_by else old.status(now).value
                raise KeyRefusedError(f"key {key_id} is {state} already; create a new one")
            if expires_s is None and old.expires_at is not None:
                expires_s = (old.expires_at - old.created_at).total_seconds()
            new = NewKey(
                tenant=old.tenant,
                name=old.name,
                role=old.role,
                priority=old.priority,
                expires_s=expires_s,
            )
            made = self._insert(connection, new, now)
            end = now + timedelta(seconds=grace_s)
            if old.expires_at is not None:
                end = min(end, old.expires_at)
            change = sa.update(api_keys).where(api_keys.c.id == key_id)
            connection.execute(change.values(expires_at=end, replaced_by=made.record.id))
            details = {"replaced_by": made.record.id, "grace_s": grace_s}
            write_audit(connection, by, "key.rotate", key_id, details)
        return made

    def revoke(self, key_id: str, *, by: Caller, last_admin: bool = False) -> KeyRecord:
        """End a key at once; to do it twice does no harm.

        Args:
            last_admin: also where no other admin's key is left.

        Raises:
            KeyNotFoundError: there is no such key.
            KeyRefusedError: it is the last admin's.
        """
        with self._changing() as connection:
            record = _find(connection, key_id)
            if not last_admin and _is_last_admins(connection, record):
                raise KeyRefusedError(
                    f"{key_id} is the last admin's key that holds: without it nobody makes or ends "
                    "keys but who owns the home folder (`foreword keys create TENANT --role admin "
                    "--direct`); make another admin's key first, or confirm with `--last-admin` "
                    "(`?last_admin=true`)"
                )
            if record.revoked_at is None:
                change = sa.update(api_keys).where(api_keys.c.id == key_id)
                connection.execute(change.values(revoked_at=datetime.now(UTC)))
                write_audit(connection, by, "key.revoke", key_id, {"tenant": record.tenant})
            return _find(connection, key_id)

    def set_limits(self, tenant: str, limits: TenantLimits, *, by: Caller) -> None:
        """What a tenant may use from now on, in place of the settings' limits."""
        check_tenant(tenant)
        values = asdict(limits)
        with self._changing() as connection:
            connection.execute(sa.delete(tenant_limits).where(tenant_limits.c.tenant == tenant))
            row = {"tenant": tenant, "updated_at": datetime.now(UTC), **values}
            connection.execute(sa.insert(tenant_limits).values(**row))
            write_audit(connection, by, "tenant.limits", tenant, values)

    def drop_limits(self, tenant: str, *, by: Caller) -> None:
        """Back to the settings' limits."""
        with self._changing() as connection:
            connection.execute(sa.delete(tenant_limits).where(tenant_limits.c.tenant == tenant))
            write_audit(connection, by, "tenant.limits_default", tenant, {})

    def used(self, last_used: Mapping[str, datetime]) -> None:
        """Note when keys were used last. No change that anybody need look at."""
        with self.database.begin() as connection:
            for key_id, at in last_used.items():
                change = sa.update(api_keys).where(api_keys.c.id == key_id)
                connection.execute(change.values(last_used_at=at))

    @contextmanager
    def _changing(self) -> Iterator[sa.Connection]:
        """A transaction that counts the revision up, first of all: changes come one after another.

        What two gateways see of "the first key" is then the same.
        """
        with self.database.begin() as connection:
            counted = admission_revision.c.revision + 1
            connection.execute(sa.update(admission_revision).values(revision=counted))
            yield connection

    def _insert(self, connection: sa.Connection, new: NewKey, now: datetime) -> CreatedKey:
        key = make_key()
        expires = None if new.expires_s is None else now + timedelta(seconds=new.expires_s)
        record = KeyRecord(
            id=make_key_id(),
            digest=self.digests.of(key.encode()),
            tenant=new.tenant,
            name=new.name,
            role=new.role,
            priority=new.priority,
            hint=hint_of(key),
            created_at=now,
            expires_at=expires,
        )
        row = asdict(record) | {"role": new.role.value, "priority": new.priority.label}
        connection.execute(sa.insert(api_keys).values(**row))
        return CreatedKey(key=key, record=record)


_ALL_KEYS = sa.select(api_keys).order_by(api_keys.c.created_at, api_keys.c.id)


def _find(connection: sa.Connection, key_id: str) -> KeyRecord:
    found = connection.execute(_ALL_KEYS.where(api_keys.c.id == key_id)).mappings().one_or_none()
    if found is None:
        raise KeyNotFoundError(key_id)
    return _record(found)


def _is_last_admins(connection: sa.Connection, record: KeyRecord) -> bool:
    """Whether no admin's key would be left; one that was rotated is about to end."""
    now = datetime.now(UTC)
    if record.role is not Role.ADMIN or record.status(now) is not KeyStatus.ACTIVE:
        return False
    admins = _ALL_KEYS.where(api_keys.c.role == Role.ADMIN.value, api_keys.c.id != record.id)
    others = (_record(row) for row in connection.execute(admins).mappings())
    return not any(o.status(now) is KeyStatus.ACTIVE and o.replaced_by is None for o in others)


def _record(row: sa.RowMapping) -> KeyRecord:
    values: dict[str, Any] = dict(row)
    typed = {"role": Role(values["role"]), "priority": Priority.of(values["priority"])}
    return KeyRecord(**values | typed)


def _limits(row: sa.RowMapping) -> TenantLimits:
    known = {name: row[name] for name in asdict(TenantLimits())}
    return TenantLimits(**known)
