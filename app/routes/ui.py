"""`/ui/`: the pages for people. Anybody may load them; what they then ask for needs a key."""

import anyio
from fastapi import APIRouter, HTTPException, Request
from fastapi.responses import Response

from app.ui import read_page_file

router = APIRouter()


@router.get("/", include_in_schema=False)
async def root(request: Request) -> Response:
    """People are led to the page; programs are told that there is nothing here."""
    if "text/html" not in request.headers.get("accept", ""):
        raise HTTPException(404)
    return Response(status_code=307, headers={"location": "ui/", "vary": "accept"})


@router.get("/ui")
async def to_the_page() -> Response:
    """The page lies one level deeper, so that its addresses hold under any prefix of a proxy."""
    # A path and no host: a redirect never leads to a host that the client named.
    return Response(status_code=307, headers={"location": "ui/"})


@router.get("/ui/{path:path}")
async def page(request: Request, path: str) -> Response:
    """The page, or a file of it."""
    file = await anyio.to_thread.run_sync(read_page_file, path)
    if file is None:
        raise HTTPException(404)
    if request.headers.get("if-none-match") == file.etag:
        return Response(status_code=304, headers=dict(file.headers))
    return Response(file.data, media_type=file.media_type, headers=dict(file.headers))
