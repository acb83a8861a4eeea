"""`/foreword/response-cache`: what is kept of answers, and letting go of it."""

import time
from functools import partial
from typing import Annotated, Any

import anyio
from fastapi import APIRouter, Depends, Query, Request

from app.admission.counting import counted_for_users
from app.callers import caller_of, require_admin
from app.response_cache.store import AnswerStore
from app.services import services_of

router = APIRouter(prefix="/foreword/response-cache", dependencies=[Depends(counted_for_users)])


@router.get("")
async def kept(request: Request, tenant: Annotated[str | None, Query()] = None) -> dict[str, Any]:
    """How many of a tenant's answers are kept; an admin's key sees all tenants', or one's."""
    services, caller = services_of(request), caller_of(request)
    if not caller.is_admin:
        tenant = caller.tenant
    look = partial(AnswerStore(services.database).kept, tenant=tenant, now=time.time())
    found = await anyio.to_thread.run_sync(look)
    return {
        "object": "foreword.response_cache",
        "enabled": services.response_cache is not None,
        "tenant": tenant,
        "answers": found.answers,
        "bytes": found.bytes,
    }


@router.delete("")
async def drop(request: Request, tenant: Annotated[str | None, Query()] = None) -> dict[str, Any]:
    """Let go of all answers of the caller's tenant; an admin's key names another's."""
    services, caller = services_of(request), caller_of(request)
    if tenant is not None and tenant != caller.tenant:
        require_admin(request)
    whose = tenant or caller.tenant
    if services.response_cache is not None:
        dropped = await services.response_cache.drop(whose)
    else:
        let_go = partial(AnswerStore(services.database).drop, tenant=whose)
        dropped = await anyio.to_thread.run_sync(let_go)
    return {"object": "foreword.response_cache", "tenant": whose, "deleted": dropped}
