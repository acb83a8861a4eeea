"""`/v1/vector_stores`: collections of documents, their files, and search in them.

A file is parsed and embedded before the call that adds it returns, so its status is never
`in_progress`.
"""

from functools import partial
from typing import Annotated, Any

import anyio
from fastapi import APIRouter, Query, Request

from app.routes.bodies import parse_body
from app.schemas import VectorStoreCreate, VectorStoreFileCreate, VectorStoreSearch
from app.services import LOCAL_TENANT, services_of
from retrieval import (
    Collection,
    CollectionFile,
    CollectionFileNotFoundError,
    Collections,
    CollectionSize,
    ScoredChunk,
)

router = APIRouter(prefix="/v1/vector_stores")


@router.post("")
async def create(request: Request) -> dict[str, Any]:
    """A new collection, with files if some are named."""
    collections = services_of(request).collections
    body = await parse_body(request, VectorStoreCreate)

    def make() -> dict[str, Any]:
        for file_id in body.file_ids:
            collections.get_file(file_id, tenant=LOCAL_TENANT)
        made = collections.create(body.name, tenant=LOCAL_TENANT)
        for file_id in body.file_ids:
            collections.add_file(made.id, file_id, tenant=LOCAL_TENANT)
        return _described(collections, made)

    return await anyio.to_thread.run_sync(make)


@router.get("")
async def all_of_them(
    request: Request, name: Annotated[str | None, Query()] = None
) -> dict[str, Any]:
    """All collections, oldest first; `name` picks those of that name."""
    collections = services_of(request).collections

    def load() -> list[dict[str, Any]]:
        owned = collections.list_all(tenant=LOCAL_TENANT)
        return [_described(collections, c) for c in owned if name in (None, c.name)]

    data = await anyio.to_thread.run_sync(load)
    return {"object": "list", "data": data, "has_more": False}


@router.get("/{store_id}")
async def one(request: Request, store_id: str) -> dict[str, Any]:
    """One collection."""
    collections = services_of(request).collections
    return await anyio.to_thread.run_sync(
        lambda: _described(collections, collections.get(store_id, tenant=LOCAL_TENANT))
    )


@router.delete("/{store_id}")
async def delete(request: Request, store_id: str) -> dict[str, Any]:
    """Remove a collection and the KV of its prompts; its files stay."""
    deletions = services_of(request).deletions
    await deletions.delete_collection(store_id, tenant=LOCAL_TENANT)
    return {"id": store_id, "object": "vector_store.deleted", "deleted": True}


@router.post("/{store_id}/files")
async def add_file(request: Request, store_id: str) -> dict[str, Any]:
    """Parse, cut and embed a file into a collection."""
    collections = services_of(request).collections
    body = await parse_body(request, VectorStoreFileCreate)

    def add() -> dict[str, Any]:
        before = _held(collections, store_id, body.file_id)
        after = collections.add_file(store_id, body.file_id, tenant=LOCAL_TENANT)
        return _file_object(after, unchanged=before == after)

    return await anyio.to_thread.run_sync(add)


@router.get("/{store_id}/files")
async def files(request: Request, store_id: str) -> dict[str, Any]:
    """A collection's files in the order they came, failed ones too."""
    collections = services_of(request).collections
    held = await anyio.to_thread.run_sync(
        partial(collections.list_collection_files, store_id, tenant=LOCAL_TENANT)
    )
    return {"object": "list", "data": [_file_object(f) for f in held], "has_more": False}


@router.get("/{store_id}/files/{file_id}")
async def file(request: Request, store_id: str, file_id: str) -> dict[str, Any]:
    """A file's place in a collection."""
    collections = services_of(request).collections
    get = partial(collections.get_collection_file, store_id, file_id, tenant=LOCAL_TENANT)
    return _file_object(await anyio.to_thread.run_sync(get))


@router.delete("/{store_id}/files/{file_id}")
async def remove_file(request: Request, store_id: str, file_id: str) -> dict[str, Any]:
    """Take a file out of a collection; the file itself stays."""
    collections = services_of(request).collections
    remove = partial(collections.remove_file, store_id, file_id, tenant=LOCAL_TENANT)
    await anyio.to_thread.run_sync(remove)
    return {"id": file_id, "object": "vector_store.file.deleted", "deleted": True}


@router.post("/{store_id}/search")
async def search(request: Request, store_id: str) -> dict[str, Any]:
    """The passages nearest to a query, best first."""
    collections = services_of(request).collections
    body = await parse_body(request, VectorStoreSearch)
    found = await anyio.to_thread.run_sync(
        partial(collections.search, store_id, body.query, body.max_num_results, tenant=LOCAL_TENANT)
    )
    return {
        "object": "vector_store.search_results.page",
        "search_query": [body.query],
        "data": [_result(scored) for scored in found],
        "has_more": False,
        "next_page": None,
    }


def _held(collections: Collections, store_id: str, file_id: str) -> CollectionFile | None:
    try:
        return collections.get_collection_file(store_id, file_id, tenant=LOCAL_TENANT)
    except CollectionFileNotFoundError:
        return None


def _described(collections: Collections, collection: Collection) -> dict[str, Any]:
    size = collections.size(collection.id, tenant=collection.tenant)
    return _store_object(collection, size)


def _store_object(collection: Collection, size: CollectionSize) -> dict[str, Any]:
    return {
        "id": collection.id,
        "object": "vector_store",
        "created_at": collection.created_at,
        "name": collection.name,
        "usage_bytes": size.file_bytes,
        "status": "completed",
        "file_counts": {
            "in_progress": 0,
            "completed": size.completed_files,
            "failed": size.failed_files,
            "cancelled": 0,
            "total": size.completed_files + size.failed_files,
        },
        "foreword": {
            "documents": size.document_count,
            "chunks": size.chunk_count,
            "tokens": size.token_count,
        },
    }


def _file_object(held: CollectionFile, *, unchanged: bool | None = None) -> dict[str, Any]:
    error = held.last_error
    return {
        "id": held.file_id,
        "object": "vector_store.file",
        "created_at": held.created_at,
        "vector_store_id": held.collection_id,
        "status": held.status.value,
        "last_error": {"code": error.code, "message": error.message} if error else None,
        "foreword": {"chunks": held.chunk_count, "unchanged": unchanged},
    }


def _result(scored: ScoredChunk) -> dict[str, Any]:
    chunk = scored.chunk
    return {
        "file_id": chunk.file_id,
        "filename": chunk.name,
        "score": scored.score,
        "attributes": {"page": chunk.page, "heading": " > ".join(chunk.heading_path) or None},
        "content": [{"type": "text", "text": chunk.text}],
    }
