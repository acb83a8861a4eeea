"""For operators: liveness, readiness, metrics, the report, the templates."""

from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, Response

from app.errors import EngineNotReadyError
from app.readiness import degradations
from app.services import Services, services_of

# Probes come often; a metrics page is large.
_FRESH_S = 3.0

router = APIRouter()


@router.get("/livez")
async def livez() -> dict[str, str]:
    """The process answers."""
    return {"status": "ok"}


@router.get("/readyz")
async def readyz(request: Request) -> JSONResponse:
    """Whether requests would be answered now, and what is degraded."""
    services = services_of(request)
    try:
        view = services.replica.view()
    except EngineNotReadyError as error:
        reason = services.replica.problem or str(error)
        return JSONResponse({"status": "not ready", "reasons": [reason]}, 503)
    await services.counters.looks.if_older(_FRESH_S)
    if services.tier_watch is not None:
        await services.tier_watch.looks.if_older(_FRESH_S)
    reasons = degradations(services, view)
    speed = services.speed.speed
    return JSONResponse(
        {
            "status": "degraded" if reasons else "ok",
            "reasons": reasons,
            "engine": {
                "url": services.replica.client.url,
                "version": view.info.version,
                "model": view.info.served_name,
                "context_tokens": view.info.context_tokens,
                "page_tokens": view.info.page_tokens,
                "pool_tokens": view.info.pool_tokens,
                "cache_report": view.info.cache_report,
                "tiers": view.info.tiers,
                "tier_failures": services.counters.guard.failures,
                "isolation": view.isolation.verdict.value,
                "token_parity": view.parity.ok,
                "tool_parity": view.parity.tools,
                "kv_events": services.accounting.address() is not None,
                "prefill_tokens_per_s": speed.tokens_per_s if speed else None,
            },
            "corpora": services.corpora.counts(),
        }
    )


@router.get("/metrics")
async def metrics(request: Request) -> Response:
    """Prometheus's text format."""
    services = services_of(request)
    text = services.metrics.text(_levels(services))
    return Response(text, media_type="text/plain; version=0.0.4; charset=utf-8")


@router.get("/foreword/templates")
async def templates(request: Request) -> dict[str, Any]:
    """The templates, with the fixed text that each begins with."""
    return {
        "data": [{"name": t.name, "version": t.version} for t in services_of(request).templates]
    }


def _levels(services: Services) -> dict[str, float]:
    accounting = services.accounting
    return {
        "ledger_dropped_rows": services.ledger.dropped,
        "accounting_errors": accounting.errors,
        "kv_event_batches": accounting.events.batches,
        "kv_event_gaps": accounting.events.unfilled_gaps,
        "index_pages": accounting.index.pages if accounting.index else 0,
        "kv_deletions_pending": services.deletions.pending,
        **services.corpora.levels(),
    }
