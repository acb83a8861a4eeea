"""`/v1/files`: uploads, durable before they are acknowledged."""

from functools import partial
from typing import Annotated, Any

import anyio
from fastapi import APIRouter, Form, Request, UploadFile
from fastapi.responses import Response

from app.errors import InvalidRequestError
from app.services import LOCAL_TENANT, services_of
from retrieval import StoredFile

router = APIRouter(prefix="/v1/files")


@router.post("")
async def upload(
    request: Request, file: UploadFile, purpose: Annotated[str, Form()]
) -> dict[str, Any]:
    """Store a file; it is on disk when the answer says so."""
    services = services_of(request)
    if not file.filename:
        raise InvalidRequestError("the file has no name", param="file")
    data = await file.read()
    save = partial(
        services.collections.save_file, file.filename, data, purpose, tenant=LOCAL_TENANT
    )
    return file_object(await anyio.to_thread.run_sync(save))


@router.get("")
async def files(request: Request) -> dict[str, Any]:
    """All files, oldest first."""
    services = services_of(request)
    stored = await anyio.to_thread.run_sync(
        partial(services.collections.list_files, tenant=LOCAL_TENANT)
    )
    return {"object": "list", "data": [file_object(f) for f in stored], "has_more": False}


@router.get("/{file_id}")
async def file(request: Request, file_id: str) -> dict[str, Any]:
    """One file's record."""
    services = services_of(request)
    get = partial(services.collections.get_file, file_id, tenant=LOCAL_TENANT)
    return file_object(await anyio.to_thread.run_sync(get))


@router.get("/{file_id}/content")
async def content(request: Request, file_id: str) -> Response:
    """The bytes as they came in."""
    services = services_of(request)
    read = partial(services.collections.read_file, file_id, tenant=LOCAL_TENANT)
    data = await anyio.to_thread.run_sync(read)
    return Response(data, media_type="application/octet-stream")


@router.delete("/{file_id}")
async def delete(request: Request, file_id: str) -> dict[str, Any]:
    """Remove a file, from all collections too."""
    services = services_of(request)
    remove = partial(services.collections.delete_file, file_id, tenant=LOCAL_TENANT)
    await anyio.to_thread.run_sync(remove)
    return {"id": file_id, "object": "file", "deleted": True}


def file_object(stored: StoredFile) -> dict[str, Any]:
    """OpenAI's file object."""
    return {
        "id": stored.id,
        "object": "file",
        "bytes": stored.size_bytes,
        "created_at": stored.created_at,
        "filename": stored.name,
        "purpose": stored.purpose,
        "status": "processed",
    }
