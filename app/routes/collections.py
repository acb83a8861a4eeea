"""`/foreword/collections`: collections as whole corpora: their tokens, their state, and warming."""

from dataclasses import asdict
from functools import partial
from typing import Any

import anyio
from fastapi import APIRouter, Depends, Request
from fastapi.responses import JSONResponse

from app.admission.counting import counted
from app.callers import tenant_of
from app.context import check_not_empty
from app.corpora import CorpusStatus
from app.services import Services, services_of
from retrieval import Collection

router = APIRouter(prefix="/foreword/collections", dependencies=[Depends(counted)])


@router.get("")
async def all_of_them(request: Request) -> dict[str, Any]:
    """All collections, oldest first; the tokens of those that were never used whole are null."""
    services = services_of(request)
    load = partial(services.collections.list_all, tenant=tenant_of(request))
    owned = await anyio.to_thread.run_sync(load)
    data = [_described(services, c, services.corpora.status(c.id)) for c in owned]
    return {"object": "list", "data": data}


@router.get("/{name:path}")
async def one(request: Request, name: str) -> dict[str, Any]:
    """One collection, by id or name; its tokens are counted now if they never were."""
    services = services_of(request)
    collection = await _resolved(services, name, tenant=tenant_of(request))
    return _described(services, collection, await services.corpora.status_of(collection))


@router.post("/{name:path}/warm")
async def warm(request: Request, name: str) -> JSONResponse:
    """Begin to warm a collection; the answer comes at once, and says how far it is."""
    services = services_of(request)
    collection = await _resolved(services, name, tenant=tenant_of(request))
    await check_not_empty(services, collection)
    await services.corpora.begin_warm(collection)
    status = services.corpora.status(collection.id)
    return JSONResponse(_described(services, collection, status), 202)


async def _resolved(services: Services, name: str, *, tenant: str) -> Collection:
    resolve = partial(services.collections.resolve, name, tenant=tenant)
    return await anyio.to_thread.run_sync(resolve)


def _described(
    services: Services, collection: Collection, status: CorpusStatus | None
) -> dict[str, Any]:
    last = services.modes.last(collection.id)
    corpus = None
    if status is not None:
        corpus = {**asdict(status), "resident": status.resident}
        del corpus["collection_id"]
    return {
        "id": collection.id,
        "object": "foreword.collection",
        "name": collection.name,
        "mode": collection.mode,
        "priority": collection.priority,
        "revision": collection.revision,
        "corpus": corpus,
        "last_decision": {
            "mode": last.mode.value,
            "reason": last.reason,
            "costs": last.costs_json(),
        }
        if last
        else None,
    }
