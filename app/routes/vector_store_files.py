"""`/v1/vector_stores/{id}/files` and `/file_batches`: which files a collection holds.

A call that adds files returns when it is durable that they are to be taken in; reading, cutting and
embedding come afterwards.
"""

from functools import partial
from typing import Annotated, Any, Literal

import anyio
from fastapi import APIRouter, Depends, Query, Request

from app.admission.counting import counted
from app.callers import tenant_of
from app.paging import ListQuery, list_object, page_query
from app.routes.bodies import parse_body
from app.services import Services, services_of
from app.vector_stores.bodies import (
    FileBatchCreate,
    VectorStoreFileCreate,
    VectorStoreFileUpdate,
    check_chunking,
)
from app.vector_stores.objects import batch_object, content_page, file_object
from retrieval import AddedFile, CollectionFile, FileStatus, IngestProgress

router = APIRouter(prefix="/v1/vector_stores/{store_id}", dependencies=[Depends(counted)])


class HeldQuery(ListQuery):
    """The query of a list of files; `filter` picks those of one status."""

    filter: Literal["in_progress", "completed", "failed", "cancelled"] | None = None


@router.post("/files")
async def add_file(request: Request, store_id: str) -> dict[str, Any]:
    """Take a file into a collection."""
    services = services_of(request)
    body = await parse_body(request, VectorStoreFileCreate)
    check_chunking(body.chunking_strategy, chunk_tokens=_chunk_tokens(services))
    add = partial(
        services.collections.enqueue_files,
        store_id,
        [body.file_id],
        tenant=tenant_of(request),
        attributes=body.attributes,
        access=body.foreword.access,
    )
    [held] = await anyio.to_thread.run_sync(add)
    return _object(services, held, unchanged=held.status is FileStatus.COMPLETED)


@router.get("/files")
async def files(
    request: Request, store_id: str, query: Annotated[HeldQuery, Query()]
) -> dict[str, Any]:
    """A collection's files, newest first unless asked otherwise; failed ones too."""
    return await _listed(request, store_id, query)


@router.get("/files/{file_id}")
async def file(request: Request, store_id: str, file_id: str) -> dict[str, Any]:
    """A file's place in a collection, and how far it has come."""
    services = services_of(request)
    collections = services.collections

    def load() -> dict[str, Any]:
        # Asked first: what it then says of a file that has just ended is the end.
        progress = collections.progress(store_id, file_id, tenant=tenant_of(request))
        held = collections.get_collection_file(store_id, file_id, tenant=tenant_of(request))
        waits = held.status is FileStatus.IN_PROGRESS
        return _object(services, held, progress=progress if waits else None)

    return await anyio.to_thread.run_sync(load)


@router.post("/files/{file_id}")
async def update_file(request: Request, store_id: str, file_id: str) -> dict[str, Any]:
    """Replace a file's attributes, and who may see it if that is named."""
    services = services_of(request)
    body = await parse_body(request, VectorStoreFileUpdate)
    change = partial(
        services.collections.update_file,
        store_id,
        file_id,
        tenant=tenant_of(request),
        attributes=body.attributes or {},
        access=body.foreword.access,
    )
    return _object(services, await anyio.to_thread.run_sync(change))


@router.get("/files/{file_id}/content")
async def file_content(request: Request, store_id: str, file_id: str) -> dict[str, Any]:
    """The text that was read of a file."""
    services = services_of(request)
    read = partial(services.collections.file_text, store_id, file_id, tenant=tenant_of(request))
    return content_page(await anyio.to_thread.run_sync(read))


@router.delete("/files/{file_id}")
async def remove_file(request: Request, store_id: str, file_id: str) -> dict[str, Any]:
    """Take a file out of a collection; the file itself stays."""
    collections = services_of(request).collections
    remove = partial(collections.remove_file, store_id, file_id, tenant=tenant_of(request))
    await anyio.to_thread.run_sync(remove)
    return {"id": file_id, "object": "vector_store.file.deleted", "deleted": True}


@router.post("/file_batches")
async def create_batch(request: Request, store_id: str) -> dict[str, Any]:
    """Take several files in."""
    services = services_of(request)
    body = await parse_body(request, FileBatchCreate)
    for file in body.each():
        check_chunking(file.chunking_strategy, chunk_tokens=_chunk_tokens(services))
    added = [
        AddedFile(
            file_id=file.file_id,
            attributes=file.attributes,
            access=None if file.foreword.access is None else tuple(file.foreword.access),
        )
        for file in body.each()
    ]
    add = partial(services.collections.enqueue_each, store_id, added, tenant=tenant_of(request))
    return batch_object(await anyio.to_thread.run_sync(add))


@router.get("/file_batches/{batch_id}")
async def batch(request: Request, store_id: str, batch_id: str) -> dict[str, Any]:
    """How far a batch has come."""
    collections = services_of(request).collections
    get = partial(collections.get_batch, store_id, batch_id, tenant=tenant_of(request))
    return batch_object(await anyio.to_thread.run_sync(get))


@router.post("/file_batches/{batch_id}/cancel")
async def cancel_batch(request: Request, store_id: str, batch_id: str) -> dict[str, Any]:
    """Leave out what of a batch has not been taken in yet."""
    collections = services_of(request).collections
    cancel = partial(collections.cancel_batch, store_id, batch_id, tenant=tenant_of(request))
    return batch_object(await anyio.to_thread.run_sync(cancel))


@router.get("/file_batches/{batch_id}/files")
async def batch_files(
    request: Request, store_id: str, batch_id: str, query: Annotated[HeldQuery, Query()]
) -> dict[str, Any]:
    """The files of a batch, newest first unless asked otherwise."""
    return await _listed(request, store_id, query, batch_id=batch_id)


async def _listed(
    request: Request, store_id: str, query: HeldQuery, *, batch_id: str | None = None
) -> dict[str, Any]:
    services = services_of(request)
    load = partial(
        services.collections.page_of_collection_files,
        store_id,
        page_query(query),
        tenant=tenant_of(request),
        batch_id=batch_id,
        status=FileStatus(query.filter) if query.filter else None,
    )
    page = await anyio.to_thread.run_sync(load)
    return list_object([_object(services, file) for file in page.items], has_more=page.has_more)


def _object(
    services: Services,
    held: CollectionFile,
    *,
    unchanged: bool | None = None,
    progress: IngestProgress | None = None,
) -> dict[str, Any]:
    return file_object(
        held, chunk_tokens=_chunk_tokens(services), unchanged=unchanged, progress=progress
    )


def _chunk_tokens(services: Services) -> int:
    return services.settings.retrieval.chunk_tokens
