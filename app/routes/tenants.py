"""`/foreword/tenants`: what an operator can do to all that a tenant has."""

from typing import Any

from fastapi import APIRouter, Request

from app.services import services_of

router = APIRouter(prefix="/foreword/tenants")


@router.delete("/{tenant}/kv")
async def delete_kv(request: Request, tenant: str) -> dict[str, Any]:
    """Make all KV of a tenant's prompts unreachable now, and unreadable once the tiers answer.

    Its documents and conversations stay; the next prompts are computed anew. `pending` counts the
    salts whose keys are still to be destroyed.
    """
    services = services_of(request)
    epoch = await services.deletions.delete_tenant(tenant)
    await services.deletions.destroy_pending()
    return {
        "tenant": tenant,
        "object": "foreword.tenant_kv.deleted",
        "deleted": True,
        "epoch": epoch,
        "pending": services.deletions.pending,
    }
