"""`POST /foreword/collections/{name}/sync`: a collection's files made equal to those of a folder.

One call takes some of the files, by their names; the last names all that stay, and removes the
others.
"""

from collections.abc import Iterator
from typing import Any

import anyio
from fastapi import APIRouter, Depends, Request
from pydantic import BaseModel, ConfigDict
from starlette.datastructures import FormData, UploadFile

from app.admission.counting import counted
from app.callers import tenant_of
from app.errors import InvalidRequestError, RefusedFieldError, UnsupportedMediaTypeError
from app.json_guard import loads
from app.routes.bodies import checked_body
from app.routes.files import check_file
from app.services import services_of
from app.settings import WireSettings
from app.vector_stores.objects import sync_object
from app.wire_limits import Attributes, Group

router = APIRouter(prefix="/foreword/collections", dependencies=[Depends(counted)])

_MAX_FILES = 1000


class SyncOptions(BaseModel):
    """The `options` field, a JSON object.

    Attributes:
        attributes, access: of all files that are sent; None keeps what they have.
        keep: names that stay, beside those that are sent.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    attributes: Attributes | None = None
    access: list[Group] | None = None
    remove_missing: bool = False
    keep: list[str] = []


@router.post("/{name:path}/sync")
async def sync(request: Request, name: str) -> dict[str, Any]:
    """Add new files, replace changed ones, leave the rest; each in one transaction."""
    services = services_of(request)
    collections = services.collections
    if not request.headers.get("content-type", "").startswith("multipart/form-data"):
        raise UnsupportedMediaTypeError("multipart/form-data with fields called file and options")
    async with request.form(max_files=_MAX_FILES, max_fields=1) as form:
        options, uploads = _options(form, services.settings.wire), _uploads(form)
        files = [(upload.filename or "", await upload.read()) for upload in uploads]
    for file in files:
        check_file(*file)

    def work() -> dict[str, Any]:
        collection = collections.resolve(name, tenant=tenant_of(request))
        done = collections.sync(
            collection.id,
            files,
            tenant=tenant_of(request),
            attributes=options.attributes,
            access=options.access,
            remove_missing=options.remove_missing,
            keep=options.keep,
        )
        return sync_object(collection.id, done)

    return await anyio.to_thread.run_sync(work)


def _uploads(form: FormData) -> Iterator[UploadFile]:
    for field, value in form.multi_items():
        if field == "file" and isinstance(value, UploadFile):
            yield value
        elif field != "options":
            raise RefusedFieldError(field, "the fields are file, as often as needed, and options")


def _options(form: FormData, limits: WireSettings) -> SyncOptions:
    given = form.get("options", "{}")
    if not isinstance(given, str):
        raise InvalidRequestError("options: must be a JSON object", param="options")
    try:
        options = loads(given.encode(), limits)
    except InvalidRequestError as error:
        raise InvalidRequestError(f"options: {error}", param="options") from error
    return checked_body(options, SyncOptions)
