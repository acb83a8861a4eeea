"""`/foreword/keys` and `/foreword/audit`: who may use the deployment, and what operators did."""

from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from typing import Annotated, Any, Literal

import anyio
import sqlalchemy as sa
from fastapi import APIRouter, Query, Request
from pydantic import BaseModel, ConfigDict, Field

from app.admission.audit import AuditEntry, read_audit
from app.admission.keyring import KeyRing
from app.admission.keys import KeyRecord, NewKey
from app.admission.store import CreatedKey
from app.callers import Priority, Role, require_admin
from app.paging import list_object
from app.routes.bodies import parse_body
from app.services import services_of

router = APIRouter(prefix="/foreword")

_Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False, strict=True)]


class KeyCreate(BaseModel):
    """A key to be made; without `expires_s` it never expires."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    tenant: str
    name: str = ""
    role: Role = Role.USER
    priority: Literal["interactive", "normal", "background"] = "interactive"
    expires_s: _Seconds | None = None


class KeyRotate(BaseModel):
    """How long the old key still holds, and how long the new one does."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    grace_s: Annotated[float, Field(ge=0, le=30 * 86_400, allow_inf_nan=False, strict=True)] = (
        3600.0
    )
    expires_s: _Seconds | None = None


@router.post("/keys")
async def create(request: Request) -> dict[str, Any]:
    """Make a key; this answer alone has it."""
    caller, services = require_admin(request), services_of(request)
    body = await parse_body(request, KeyCreate)
    values = body.model_dump() | {"priority": Priority.of(body.priority)}
    make = partial(services.keys.store.create, NewKey(**values), by=caller)
    made = await anyio.to_thread.run_sync(make)
    await services.keys.refresh_now()
    return created_object(made)


@router.get("/keys")
async def keys(request: Request, tenant: Annotated[str | None, Query()] = None) -> dict[str, Any]:
    """All keys, those that no longer hold too, oldest first."""
    require_admin(request)
    services = services_of(request)
    await _note_used(services.keys)
    found = await anyio.to_thread.run_sync(partial(services.keys.store.all_keys, tenant=tenant))
    return list_object([key_object(record) for record in found], has_more=False)


@router.get("/keys/{key_id}")
async def key(request: Request, key_id: str) -> dict[str, Any]:
    """One key's record."""
    require_admin(request)
    services = services_of(request)
    await _note_used(services.keys)
    return key_object(await anyio.to_thread.run_sync(services.keys.store.key, key_id))


@router.post("/keys/{key_id}/rotate")
async def rotate(request: Request, key_id: str) -> dict[str, Any]:
    """Make a key like this one, which holds a while longer; this answer alone has the new one."""
    caller, services = require_admin(request), services_of(request)
    body = await parse_body(request, KeyRotate)
    make = partial(
        services.keys.store.rotate,
        key_id,
        grace_s=body.grace_s,
        expires_s=body.expires_s,
        by=caller,
    )
    made = await anyio.to_thread.run_sync(make)
    await services.keys.refresh_now()
    return created_object(made)


@router.delete("/keys/{key_id}")
async def revoke(
    request: Request, key_id: str, last_admin: Annotated[bool, Query()] = False
) -> dict[str, Any]:
    """End a key: here at once, at other gateways within a second.

    That of the last admin only with `last_admin=true`: nobody could make another over HTTP.
    """
    caller, services = require_admin(request), services_of(request)
    end = partial(services.keys.store.revoke, key_id, by=caller, last_admin=last_admin)
    record = await anyio.to_thread.run_sync(end)
    await services.keys.refresh_now()
    return key_object(record)


@router.get("/audit")
async def audit_log(
    request: Request,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
    before: Annotated[int | None, Query(ge=1, le=2**63 - 1)] = None,
    action: Annotated[str | None, Query(max_length=64)] = None,
) -> dict[str, Any]:
    """What operators did, newest first; `before` is an entry's id, to go on from it."""
    require_admin(request)
    services = services_of(request)

    def load() -> list[AuditEntry]:
        with services.database.connect() as connection:
            return read_audit(connection, limit=limit + 1, before=before, action=action)

    found = await anyio.to_thread.run_sync(load)
    data = [_entry_object(entry) for entry in found[:limit]]
    return list_object(data, has_more=len(found) > limit)


async def _note_used(keys: KeyRing) -> None:
    """What was used a moment ago is shown, too, unless it can't be written."""
    with suppress(sa.exc.SQLAlchemyError):
        await keys.note_used()


def created_object(made: CreatedKey) -> dict[str, Any]:
    """A key's record with the key itself."""
    return key_object(made.record) | {"key": made.key}


def key_object(record: KeyRecord) -> dict[str, Any]:
    """What may be shown of a key."""
    return {
        "id": record.id,
        "object": "foreword.key",
        "tenant": record.tenant,
        "name": record.name,
        "role": record.role.value,
        "priority": record.priority.label,
        "hint": record.hint,
        "status": record.status(datetime.now(UTC)).value,
        "created_at": _moment(record.created_at),
        "expires_at": _moment(record.expires_at),
        "revoked_at": _moment(record.revoked_at),
        "replaced_by": record.replaced_by,
        "last_used_at": _moment(record.last_used_at),
    }


def _entry_object(entry: AuditEntry) -> dict[str, Any]:
    return {
        "id": entry.id,
        "object": "foreword.audit_entry",
        "at": _moment(entry.at),
        "key_id": entry.key_id,
        "tenant": entry.tenant,
        "action": entry.action,
        "target": entry.target,
        "details": dict(entry.details),
    }


def _moment(at: datetime | None) -> int | None:
    """Seconds since 1970, as in OpenAI's objects."""
    return None if at is None else int(at.timestamp())
