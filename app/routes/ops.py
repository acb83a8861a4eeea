"""For operators: liveness, readiness, metrics."""

import anyio
from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, Response

from app.callers import Role, caller_of, require_monitor
from app.gauges import levels_of
from app.readiness import readiness_of
from app.services import Services, services_of
from app.tiers import sides_of

# Probes come often; an engine's metrics page is large.
_FRESH_S = 3.0
_SEES_DETAILS = frozenset({Role.MONITOR, Role.ADMIN})

router = APIRouter()


@router.get("/livez")
async def livez() -> dict[str, str]:
    """The process answers."""
    return {"status": "ok"}


@router.get("/readyz")
async def readyz(request: Request) -> JSONResponse:
    """Whether requests would be answered now; to operators, also what is degraded."""
    services = services_of(request)
    await _look(services)
    readiness = readiness_of(services)
    status = 200 if readiness.is_ready else 503
    if caller_of(request).role not in _SEES_DETAILS:
        return JSONResponse({"status": readiness.status}, status)
    return JSONResponse(readiness.details, status)


@router.get("/metrics")
async def metrics(request: Request) -> Response:
    """Prometheus's text format."""
    require_monitor(request)
    services = services_of(request)
    # Beside the event loop: with hundreds of tenants the page takes tens of milliseconds.
    refused = getattr(request.app.state, "refused", {})  # an app that isn't served has no wire
    levels = levels_of(services, refused)
    services.metrics.catch_up()
    text = await anyio.to_thread.run_sync(services.metrics.text, levels)
    return Response(text, media_type="text/plain; version=0.0.4; charset=utf-8")


async def _look(services: Services) -> None:
    """See what the engines' guards and the tier servers say, unless that was asked just now."""
    looks = [r.counters.looks for r in services.fleet.replicas if r.seen is not None]
    looks += [side.watch.looks for side in sides_of(services.fleet.replicas) if side.watch]
    async with anyio.create_task_group() as tasks:
        for look in looks:
            tasks.start_soon(look.if_older, _FRESH_S)
