"""For operators: liveness, readiness, metrics, the report, the templates."""

from datetime import UTC, datetime, timedelta
from typing import Annotated, Any

import anyio
from fastapi import APIRouter, Query, Request
from fastapi.responses import JSONResponse, PlainTextResponse, Response

from app.errors import EngineNotReadyError, InvalidRequestError
from app.replica import ReplicaView
from app.services import Services, services_of
from cache.report import Report, load_report
from cache.report_json import to_json
from cache.report_text import render_text

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
    await services.counters.advance()
    reasons = _degradations(services, view)
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
                "token_parity": view.parity.ok,
                "tool_parity": view.parity.tools,
            },
        }
    )


@router.get("/metrics")
async def metrics(request: Request) -> Response:
    """Prometheus's text format."""
    services = services_of(request)
    text = services.metrics.text(ledger_dropped=services.ledger.dropped)
    return Response(text, media_type="text/plain; version=0.0.4; charset=utf-8")


@router.get("/foreword/report")
async def report(
    request: Request,
    output: Annotated[str, Query(alias="format", pattern="^(text|json)$")] = "json",
    since: Annotated[str | None, Query()] = None,
    by: Annotated[str, Query()] = "template",
) -> Response:
    """Re-use by template: requests, tokens by tier, hit rate, TTFT, and the engine's own count."""
    services = services_of(request)
    counted = await services.counters.advance()
    groups = tuple(part.strip() for part in by.split(",") if part.strip())

    def load() -> Report:
        services.ledger.flush()
        with services.database.connect() as connection:
            return load_report(
                connection,
                now=datetime.now(UTC),
                since=parse_since(since, datetime.now(UTC)),
                by=groups,
                counted=counted,
                ledger=services.ledger.status,
            )

    made = await anyio.to_thread.run_sync(load)
    if output == "text":
        return PlainTextResponse(render_text(made))
    return Response(to_json(made), media_type="application/json")


@router.get("/foreword/templates")
async def templates(request: Request) -> dict[str, Any]:
    """The templates, with the fixed text that each begins with."""
    return {
        "data": [{"name": t.name, "version": t.version} for t in services_of(request).templates]
    }


def parse_since(text: str | None, now: datetime) -> datetime | None:
    """`15m`, `24h` or `7d` before now, or an ISO date and time (UTC where it names no zone).

    Raises:
        InvalidRequestError: neither.
    """
    if text is None:
        return None
    units = {"m": "minutes", "h": "hours", "d": "days"}
    if text[:-1].isdigit() and text[-1] in units:
        return now - timedelta(**{units[text[-1]]: int(text[:-1])})
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        problem = f"since: {text!r} is neither like 24h or 7d nor a date like 2026-01-31T12:00"
        raise InvalidRequestError(problem, param="since") from error
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _degradations(services: Services, view: ReplicaView) -> list[str]:
    reasons: list[str] = []
    if not view.parity.ok:
        reasons.append(f"prompts are sent as messages, not token ids: {view.parity.problem}")
    elif not view.parity.tools:
        reasons.append(f"tools are sent as messages, not token ids: {view.parity.problem}")
    if not view.info.cache_report:
        reasons.append("re-use is unknown: start the engine with --enable-cache-report")
    guard = services.counters.guard
    if guard.tier_open:
        reasons.append("the KV tiers don't answer and are skipped; prompts are computed instead")
    if view.info.tiers and guard.tier_open is None:
        reasons.append("the engine runs LMCache without the guard plugin: a dead tier stops it")
    status = services.ledger.status
    if status.degraded or status.dropped:
        reasons.append(f"the ledger can't be written: {status.last_error}")
    return reasons
