"""`GET /foreword/report`: what was re-used, what could have been, and why the rest was lost."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Annotated

import anyio
from fastapi import APIRouter, Query, Request
from fastapi.responses import JSONResponse, Response

from app.database import snapshot
from app.errors import EngineNotReadyError, InvalidRequestError
from app.live_plan import engine_ranks
from app.services import Services, services_of
from cache.alerts import Budgets
from cache.engine_metrics import EngineDelta
from cache.errors import ReportBudgetError, ReportGroupError
from cache.report import Prices, Report, load_report
from cache.report_html import render_html
from cache.report_json import report_json, to_json
from cache.report_markdown import render_markdown
from cache.report_text import render_text

router = APIRouter()

_COUNTERS_S = 5.0
_UNITS = {"m": "minutes", "h": "hours", "d": "days"}
_FORMS: Mapping[str, tuple[Callable[[Report], str], str]] = {
    "text": (render_text, "text/plain; charset=utf-8"),
    "json": (to_json, "application/json"),
    "markdown": (render_markdown, "text/markdown; charset=utf-8"),
    "html": (render_html, "text/html; charset=utf-8"),
}
_HEADERS = {"cache-control": "no-store", "x-content-type-options": "nosniff"}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asked:
    """A report as it was asked for."""

    now: datetime
    since: datetime | None
    until: datetime | None
    by: tuple[str, ...]
    budgets: Budgets
    price_per_gpu_hour: float | None
    top: int


@router.get("/foreword/report")
async def report(
    request: Request,
    output: Annotated[str, Query(alias="format", pattern=f"^({'|'.join(_FORMS)})$")] = "json",
    forms: Annotated[str | None, Query()] = None,
    since: Annotated[str | None, Query()] = None,
    until: Annotated[str | None, Query()] = None,
    by: Annotated[str, Query()] = "template",
    fail_under: Annotated[list[str] | None, Query()] = None,
    price_per_gpu_hour: Annotated[float | None, Query(ge=0, allow_inf_nan=False)] = None,
    top: Annotated[int, Query(ge=1, le=1000)] = 20,
) -> Response:
    """One report in one form; with `forms`, JSON that has it in several, all as of one moment."""
    services = services_of(request)
    now = datetime.now(UTC)
    asked = _Asked(
        now=now,
        since=parse_moment(since, now, "since"),
        until=parse_moment(until, now, "until"),
        by=_words(by),
        budgets=_budgets(fail_under or []),
        price_per_gpu_hour=price_per_gpu_hour,
        top=top,
    )
    if asked.since and asked.until and asked.since >= asked.until:
        raise InvalidRequestError("since: must be before until", param="since")
    made = await _load(services, asked)
    if forms is not None:
        return await anyio.to_thread.run_sync(_several, made, _forms(forms))
    render, media_type = _FORMS[output]
    text = await anyio.to_thread.run_sync(render, made)
    return Response(text, media_type=media_type, headers=_HEADERS)


def parse_moment(text: str | None, now: datetime, param: str) -> datetime | None:
    """`15m`, `24h` or `7d` before now, or an ISO date and time (UTC where it names no zone).

    Raises:
        InvalidRequestError: neither, or before the calendar begins.
    """
    if text is None:
        return None
    problem = f"{param}: {text!r} is neither like 24h or 7d nor a date like 2026-01-31T12:00"
    number, unit = text[:-1], text[-1:]
    try:
        if number.isascii() and number.isdecimal() and unit in _UNITS:
            return now - timedelta(**{_UNITS[unit]: int(number)})
        moment = datetime.fromisoformat(text)
        return moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)
    except (ValueError, OverflowError) as error:
        raise InvalidRequestError(problem, param=param) from error


async def _load(services: Services, asked: _Asked) -> Report:
    """The report; the database is read beside the event loop, the prefix index on it."""
    counted: tuple[EngineDelta, ...] = ()
    with anyio.move_on_after(_COUNTERS_S):  # an engine that is silent doesn't hold the report up
        if await services.counters.advance() is not None:
            counted = services.counters.windows
    index = services.accounting.index
    flame = None if index is None else index.flame()
    prices = _prices(services, asked.price_per_gpu_hour)

    def load() -> Report:
        services.ledger.flush()
        with snapshot(services.database) as connection:
            return load_report(
                connection,
                now=asked.now,
                since=asked.since,
                until=asked.until,
                by=asked.by,
                budgets=asked.budgets,
                counted=counted,
                ledger=services.ledger.status,
                flame=flame if flame is not None and flame.children else None,
                prices=prices,
                top=asked.top,
            )

    try:
        return await anyio.to_thread.run_sync(load)
    except ReportGroupError as error:
        raise InvalidRequestError(str(error), param="by") from error


def _prices(services: Services, per_gpu_hour: float | None) -> Prices | None:
    speed = services.speed.speed
    if speed is None:
        return None
    try:
        gpus = engine_ranks(services.replica.view().info.settings)
    except EngineNotReadyError:
        gpus = 1
    if per_gpu_hour is None:
        per_gpu_hour = services.settings.report.price_per_gpu_hour
    return Prices(speed=speed, gpus_per_rank=gpus, per_gpu_hour=per_gpu_hour)


def _several(made: Report, forms: tuple[str, ...]) -> Response:
    rendered = {form: _FORMS[form][0](made) for form in forms}
    return JSONResponse({"report": report_json(made), "forms": rendered}, headers=_HEADERS)


def _forms(text: str) -> tuple[str, ...]:
    forms = _words(text)
    for form in forms:
        if form not in _FORMS:
            problem = f"forms: {form!r} is none of {', '.join(_FORMS)}"
            raise InvalidRequestError(problem, param="forms")
    return forms


def _budgets(texts: list[str]) -> Budgets:
    try:
        return Budgets.parse(texts)
    except ReportBudgetError as error:
        raise InvalidRequestError(str(error), param="fail_under") from error


def _words(text: str) -> tuple[str, ...]:
    return tuple(word.strip() for word in text.split(",") if word.strip())
