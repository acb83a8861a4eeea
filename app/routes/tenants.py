"""`/foreword/tenants`: what an operator can do to all that a tenant has, and how much it may use.

`/foreword/limits` is the same for whoever asks, about itself.
"""

from dataclasses import asdict
from typing import Annotated, Any

import anyio
from fastapi import APIRouter, Request
from pydantic import BaseModel, ConfigDict, Field

from app.admission.audit import audit
from app.admission.keys import check_tenant
from app.callers import TenantLimits, caller_of, require_admin
from app.routes.bodies import parse_body
from app.services import Services, services_of

router = APIRouter(prefix="/foreword")

_Some = Annotated[int, Field(gt=0, le=2**53, strict=True)] | None

_Few = Annotated[int, Field(gt=0, le=2**31 - 1, strict=True)] | None


class LimitsBody(BaseModel):
    """A tenant's limits; null is without one."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    requests_per_min: _Few = None
    tokens_per_min: _Some = None
    concurrent: _Few = None
    tokens_per_day: _Some = None
    max_output_tokens: _Few = None
    max_prompt_tokens: _Few = None
    weight: Annotated[float, Field(gt=0, le=1000, allow_inf_nan=False, strict=True)] = 1.0


@router.get("/limits")
async def own_limits(request: Request) -> dict[str, Any]:
    """What the caller's tenant may use, and what it used today."""
    caller = caller_of(request)
    return _limits_object(services_of(request), caller.tenant)


@router.get("/tenants/{tenant}/limits")
async def limits(request: Request, tenant: str) -> dict[str, Any]:
    """What a tenant may use, and what it used today."""
    require_admin(request)
    check_tenant(tenant)
    return _limits_object(services_of(request), tenant)


@router.put("/tenants/{tenant}/limits")
async def put_limits(request: Request, tenant: str) -> dict[str, Any]:
    """Give a tenant limits of its own, all of them: one that isn't named is none.

    The tenant may be one to come: `keys` is then 0, as it is for a name that was misspelt.
    """
    caller, services = require_admin(request), services_of(request)
    check_tenant(tenant)
    body = await parse_body(request, LimitsBody)
    new = TenantLimits(**body.model_dump())
    await anyio.to_thread.run_sync(lambda: services.keys.store.set_limits(tenant, new, by=caller))
    await services.keys.refresh_now()
    return _limits_object(services, tenant)


@router.delete("/tenants/{tenant}/limits")
async def delete_limits(request: Request, tenant: str) -> dict[str, Any]:
    """Back to the limits of the settings."""
    caller, services = require_admin(request), services_of(request)
    check_tenant(tenant)
    await anyio.to_thread.run_sync(lambda: services.keys.store.drop_limits(tenant, by=caller))
    await services.keys.refresh_now()
    return _limits_object(services, tenant)


@router.delete("/tenants/{tenant}/kv")
async def delete_kv(request: Request, tenant: str) -> dict[str, Any]:
    """Make all KV of a tenant's prompts unreachable now, and unreadable once the tiers answer.

    Its documents and conversations stay; the next prompts are computed anew. `pending` counts the
    salts whose keys are still to be destroyed.
    """
    caller, services = require_admin(request), services_of(request)
    check_tenant(tenant)
    epoch = await services.deletions.delete_tenant(tenant)
    await audit(services.database, caller, "tenant.delete_kv", tenant, epoch=epoch)
    await services.deletions.destroy_pending()
    return {
        "tenant": tenant,
        "object": "foreword.tenant_kv.deleted",
        "deleted": True,
        "epoch": epoch,
        "pending": services.deletions.pending,
    }


def _limits_object(services: Services, tenant: str) -> dict[str, Any]:
    return {
        "tenant": tenant,
        "object": "foreword.limits",
        # None may be a tenant to come, or a name that was misspelt.
        "keys": services.keys.count_of(tenant),
        "limits": asdict(services.keys.limits_of(tenant)),
        "tokens_today": services.admission.used_today(tenant),
    }
