"""`/v1/vector_stores`: collections of documents, and search in them."""

from functools import partial
from typing import Annotated, Any

import anyio
from fastapi import APIRouter, Depends, Query, Request

from app.admission.counting import counted
from app.callers import tenant_of
from app.paging import ListQuery, cut_page, list_object
from app.routes.bodies import parse_body
from app.services import services_of
from app.vector_stores.bodies import (
    VectorStoreCreate,
    VectorStoreModify,
    VectorStoreSearch,
    check_chunking,
    check_search,
)
from app.vector_stores.objects import best_of, search_page, store_object
from retrieval import Collection, Collections, RetrievalError, ScoredChunk
from retrieval.filters import parse_filter

router = APIRouter(prefix="/v1/vector_stores", dependencies=[Depends(counted)])


class StoresQuery(ListQuery):
    """The query of the list of vector stores; `name` picks those of that name."""

    name: str | None = None


@router.post("")
async def create(request: Request) -> dict[str, Any]:
    """A new collection, with files if some are named: they are taken in afterwards."""
    services = services_of(request)
    collections = services.collections
    body = await parse_body(request, VectorStoreCreate)
    check_chunking(body.chunking_strategy, chunk_tokens=services.settings.retrieval.chunk_tokens)
    options = body.foreword

    def make() -> dict[str, Any]:
        made = collections.create(
            body.name or "",
            tenant=tenant_of(request),
            metadata=body.metadata,
            expires_after_days=body.expires_after.days if body.expires_after else None,
            mode=options.mode.value if options.mode else None,
            priority=options.priority or 0,
        )
        try:
            if body.file_ids:
                collections.enqueue_files(made.id, body.file_ids, tenant=tenant_of(request))
        except RetrievalError:  # a file isn't there: an error leaves nothing behind
            collections.delete(made.id, tenant=tenant_of(request))
            raise
        return _described(collections, collections.get(made.id, tenant=tenant_of(request)))

    return await anyio.to_thread.run_sync(make)


@router.get("")
async def all_of_them(request: Request, query: Annotated[StoresQuery, Query()]) -> dict[str, Any]:
    """The collections, newest first unless asked otherwise."""
    collections = services_of(request).collections

    def load() -> dict[str, Any]:
        owned = collections.list_all(tenant=tenant_of(request))
        chosen = [c for c in owned if query.name in (None, c.name)]
        page, has_more = cut_page(chosen, query, id_of=lambda c: c.id)
        return list_object([_described(collections, c) for c in page], has_more=has_more)

    return await anyio.to_thread.run_sync(load)


@router.get("/{store_id}")
async def one(request: Request, store_id: str) -> dict[str, Any]:
    """One collection."""
    collections = services_of(request).collections
    return await anyio.to_thread.run_sync(
        lambda: _described(collections, collections.get(store_id, tenant=tenant_of(request)))
    )


@router.post("/{store_id}")
async def modify(request: Request, store_id: str) -> dict[str, Any]:
    """Change a collection's name, metadata, expiry, mode or priority."""
    collections = services_of(request).collections
    body = await parse_body(request, VectorStoreModify)
    change = partial(collections.modify, store_id, tenant=tenant_of(request), **body.changes())
    return await anyio.to_thread.run_sync(lambda: _described(collections, change()))


@router.delete("/{store_id}")
async def delete(request: Request, store_id: str) -> dict[str, Any]:
    """Remove a collection and the KV of its prompts; its files stay."""
    deletions = services_of(request).deletions
    await deletions.delete_collection(store_id, tenant=tenant_of(request))
    return {"id": store_id, "object": "vector_store.deleted", "deleted": True}


@router.post("/{store_id}/search")
async def search(request: Request, store_id: str) -> dict[str, Any]:
    """The passages that fit one or several queries, best first."""
    collections = services_of(request).collections
    body = await parse_body(request, VectorStoreSearch)
    check_search(body)
    look = partial(
        collections.search,
        store_id,
        k=body.max_num_results,
        tenant=tenant_of(request),
        filters=parse_filter(body.filters) if body.filters else None,
        groups=body.foreword.groups,
        mode=body.foreword.mode,
        rerank=body.foreword.rerank,
    )

    def find() -> list[ScoredChunk]:
        found = best_of((look(query) for query in body.queries), body.max_num_results)
        return [s for s in found if s.score >= body.ranking_options.score_threshold]

    return search_page(body.queries, await anyio.to_thread.run_sync(find))


def _described(collections: Collections, collection: Collection) -> dict[str, Any]:
    size = collections.size(collection.id, tenant=collection.tenant)
    return store_object(collection, size)
