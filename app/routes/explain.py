"""`GET /foreword/explain/{id}`: the story of one request's re-use."""

from typing import Annotated

import anyio
from fastapi import APIRouter, Depends, Query, Request
from fastapi.responses import JSONResponse, PlainTextResponse, Response

from app.admission.counting import counted_for_users
from app.callers import caller_of
from app.errors import DatabaseAwayError, RequestNotFoundError
from app.services import services_of
from cache.explain import explain
from cache.ledger_lookup import find_last_row, find_row
from cache.ledger_row import LedgerRow

router = APIRouter(dependencies=[Depends(counted_for_users)])

LAST = "last"


@router.get("/foreword/explain/{request_id}")
async def explanation(
    request: Request,
    request_id: str,
    output: Annotated[str, Query(alias="format", pattern="^(text|json)$")] = "json",
) -> Response:
    """What was expected, what the engine said, which tier served it, what changed, what to do.

    `last` is the request that ended last. Only an admin's key sees other tenants' requests.
    """
    services, caller = services_of(request), caller_of(request)
    tenant = None if caller.is_admin else caller.tenant

    def load() -> LedgerRow:
        written = services.ledger.flush()
        with services.database.connect() as connection:
            if request_id == LAST:
                row = find_last_row(connection, tenant=tenant)
            else:
                row = find_row(connection, request_id)
        if row is None and not written:
            raise DatabaseAwayError("rows wait for the ledger")
        # That another's request exists is nobody's business either.
        if row is None or tenant not in (None, row.tenant):
            raise RequestNotFoundError(request_id, services.settings.ledger.rows_days)
        return row

    told = explain(await anyio.to_thread.run_sync(load))
    if output == "text":
        return PlainTextResponse(told.text)
    return JSONResponse(told.json())
