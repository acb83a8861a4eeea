"""`/v1/batches`: requests in a file, answered in files, beside live traffic."""

import time
from functools import partial
from typing import Annotated, Any, Literal

import anyio
from fastapi import APIRouter, Depends, Query, Request
from pydantic import BaseModel, ConfigDict

from app.admission.counting import counted
from app.batches.records import Batch
from app.callers import tenant_of
from app.errors import InvalidRequestError
from app.paging import ListQuery, list_object, page_query
from app.routes.bodies import parse_body
from app.services import services_of
from app.wire_limits import Metadata

router = APIRouter(prefix="/v1/batches", dependencies=[Depends(counted)])


class BatchCreate(BaseModel):
    """The body of `POST /v1/batches`."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    input_file_id: str
    endpoint: Literal["/v1/chat/completions", "/v1/completions", "/v1/embeddings", "/v1/responses"]
    completion_window: Literal["24h"]
    metadata: Metadata | None = None


@router.post("")
async def create(request: Request) -> dict[str, Any]:
    """A new batch; its file is checked afterwards, and every line of it is answered or told of."""
    services, tenant = services_of(request), tenant_of(request)
    body = await parse_body(request, BatchCreate)

    def make() -> Batch:
        file = services.collections.get_file(body.input_file_id, tenant=tenant)
        if file.purpose != "batch":
            problem = f"the file's purpose is {file.purpose}; upload it with the purpose batch"
            raise InvalidRequestError(problem, param="input_file_id")
        return services.batches.create(
            tenant=tenant,
            endpoint=body.endpoint,
            input_file_id=file.id,
            metadata=body.metadata,
            now=time.time(),
        )

    made = await anyio.to_thread.run_sync(make)
    services.batches.changed()
    return made.json()


@router.get("")
async def all_of_them(request: Request, query: Annotated[ListQuery, Query()]) -> dict[str, Any]:
    """The batches, newest first unless asked otherwise."""
    load = partial(services_of(request).batches.page, page_query(query), tenant=tenant_of(request))
    page = await anyio.to_thread.run_sync(load)
    return list_object([batch.json() for batch in page.items], has_more=page.has_more)


@router.get("/{batch}")
async def one(request: Request, batch: str) -> dict[str, Any]:
    """A batch as it stands."""
    get = partial(services_of(request).batches.get, batch, tenant=tenant_of(request))
    return (await anyio.to_thread.run_sync(get)).json()


@router.post("/{batch}/cancel")
async def cancel(request: Request, batch: str) -> dict[str, Any]:
    """Send no further request of it; those under way are still answered."""
    batches = services_of(request).batches
    stop = partial(batches.cancel, batch, tenant=tenant_of(request), now=time.time())
    cancelled = await anyio.to_thread.run_sync(stop)
    batches.changed()
    return cancelled.json()
