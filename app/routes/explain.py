"""`GET /foreword/explain/{id}`: the story of one request's re-use."""

from typing import Annotated

import anyio
from fastapi import APIRouter, Query, Request
from fastapi.responses import JSONResponse, PlainTextResponse, Response

from app.errors import RequestNotFoundError
from app.services import services_of
from cache.explain import explain
from cache.ledger_lookup import find_last_row, find_row
from cache.ledger_row import LedgerRow

router = APIRouter()

LAST = "last"


@router.get("/foreword/explain/{request_id}")
async def explanation(
    request: Request,
    request_id: str,
    output: Annotated[str, Query(alias="format", pattern="^(text|json)$")] = "json",
) -> Response:
    """What was expected, what the engine said, which tier served it, what changed, what to do.

    `last` is the request that ended last.
    """
    services = services_of(request)

    def load() -> LedgerRow:
        services.ledger.flush()
        with services.database.connect() as connection:
            last = request_id == LAST
            row = find_last_row(connection) if last else find_row(connection, request_id)
        if row is None:
            raise RequestNotFoundError(request_id, services.settings.ledger.rows_days)
        return row

    told = explain(await anyio.to_thread.run_sync(load))
    if output == "text":
        return PlainTextResponse(told.text)
    return JSONResponse(told.json())
