"""`/v1/files`: uploads, durable before they are acknowledged."""

from functools import partial
from typing import Annotated, Any
from unicodedata import category

import anyio
from fastapi import APIRouter, Depends, Query, Request
from fastapi.responses import Response
from pydantic import Field
from starlette.datastructures import FormData, UploadFile

from app.admission.counting import counted
from app.callers import tenant_of
from app.errors import InvalidRequestError, RefusedFieldError, UnsupportedMediaTypeError
from app.paging import ListQuery, list_object, page_query
from app.services import services_of
from retrieval import StoredFile

router = APIRouter(prefix="/v1/files", dependencies=[Depends(counted)])

# OpenAI knows more; what nothing here would ever read is not taken.
PURPOSES = ("assistants", "batch", "user_data")
_FIELDS = ("file", "purpose")
_MAX_NAME = 512
# Unicode categories: control characters, halves of surrogate pairs, ends of lines and paragraphs.
_NO_NAME = ("Cc", "Cs", "Zl", "Zp")
_MAX_FIELDS = 16


class FilesQuery(ListQuery):
    """The query of the list of files, whose pages are larger than others."""

    limit: Annotated[int, Field(ge=1, le=10_000)] = 10_000
    purpose: str | None = None


@router.post("")
async def upload(request: Request) -> dict[str, Any]:
    """Store a file; it is on disk when the answer says so."""
    services = services_of(request)
    name, data, purpose = await read_upload(request)
    save = partial(services.collections.save_file, name, data, purpose, tenant=tenant_of(request))
    return file_object(await anyio.to_thread.run_sync(save))


async def read_upload(request: Request) -> tuple[str, bytes, str]:
    """The name, the bytes and the purpose of the file in a form.

    Raises:
        UnsupportedMediaTypeError, InvalidRequestError: no form, or not with one file that is taken.
    """
    if not request.headers.get("content-type", "").startswith("multipart/form-data"):
        raise UnsupportedMediaTypeError("multipart/form-data with the fields file and purpose")
    async with request.form(max_files=1, max_fields=_MAX_FIELDS) as form:
        file, purpose = _upload(form)
        name, data = file.filename or "", await file.read()
    check_file(name, data)
    return name, data, purpose


@router.get("")
async def files(request: Request, query: Annotated[FilesQuery, Query()]) -> dict[str, Any]:
    """The files, newest first unless asked otherwise."""
    services = services_of(request)
    load = partial(
        services.collections.page_of_files,
        page_query(query),
        tenant=tenant_of(request),
        purpose=query.purpose,
    )
    page = await anyio.to_thread.run_sync(load)
    return list_object([file_object(file) for file in page.items], has_more=page.has_more)


@router.get("/{file_id}")
async def file(request: Request, file_id: str) -> dict[str, Any]:
    """One file's record."""
    services = services_of(request)
    get = partial(services.collections.get_file, file_id, tenant=tenant_of(request))
    return file_object(await anyio.to_thread.run_sync(get))


@router.get("/{file_id}/content")
async def content(request: Request, file_id: str) -> Response:
    """The bytes as they came in."""
    services = services_of(request)
    read = partial(services.collections.read_file, file_id, tenant=tenant_of(request))
    data = await anyio.to_thread.run_sync(read)
    # What a stranger uploaded is never shown by a browser as a page of this site.
    headers = {"content-disposition": "attachment", "x-content-type-options": "nosniff"}
    return Response(data, media_type="application/octet-stream", headers=headers)


@router.delete("/{file_id}")
async def delete(request: Request, file_id: str) -> dict[str, Any]:
    """Remove a file, from all collections too."""
    services = services_of(request)
    remove = partial(services.collections.delete_file, file_id, tenant=tenant_of(request))
    await anyio.to_thread.run_sync(remove)
    return {"id": file_id, "object": "file", "deleted": True}


def file_object(stored: StoredFile) -> dict[str, Any]:
    """OpenAI's file object."""
    return {
        "id": stored.id,
        "object": "file",
        "bytes": stored.size_bytes,
        "created_at": stored.created_at,
        "expires_at": None,
        "filename": stored.name,
        "purpose": stored.purpose,
        "status": "processed",
        "status_details": None,
    }


def _upload(form: FormData) -> tuple[UploadFile, str]:
    """The file and what it is for.

    Raises:
        InvalidRequestError: one of them is missing or not allowed, or there is another field.
    """
    for field in form:
        if field.startswith("expires_after"):
            reason = "files stay until they are deleted; a vector store can expire"
            raise RefusedFieldError("expires_after", reason)
        if field not in _FIELDS:
            raise RefusedFieldError(field, "it is not a field of this API")
    file, purpose = form.get("file"), form.get("purpose")
    if not isinstance(file, UploadFile):
        raise InvalidRequestError("send the file in a field called file", param="file")
    if not isinstance(purpose, str) or purpose not in PURPOSES:
        problem = f"the purpose must be one of {', '.join(PURPOSES)}; for documents: assistants"
        raise InvalidRequestError(problem, param="purpose")
    return file, purpose


def check_file(name: str, data: bytes) -> None:
    """Refuse what nothing could be made of.

    Raises:
        InvalidRequestError: no name or one that can't be shown, or no content.
    """
    if not name:
        raise InvalidRequestError("the file has no name", param="file")
    if len(name) > _MAX_NAME or any(category(character) in _NO_NAME for character in name):
        problem = f"a file's name has at most {_MAX_NAME} characters, none of control; rename it"
        raise InvalidRequestError(problem, param="file")
    if not data:
        raise InvalidRequestError(f"{name!r} is empty; send a file with content", param="file")
