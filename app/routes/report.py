"""`GET /foreword/report`: what was re-used, what could have been, and why the rest was lost."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Annotated

import anyio
import sqlalchemy
from fastapi import APIRouter, Depends, Query, Request
from fastapi.responses import JSONResponse, Response

from app.admission.counting import counted_for_users
from app.callers import caller_of
from app.database import snapshot
from app.errors import EngineNotReadyError, InvalidRequestError
from app.live_plan import engine_ranks
from app.response_cache.store import HOUR_S, given_in
from app.services import Services, services_of
from app.wire.pages import PAGE_HEADERS
from cache.alerts import Budgets
from cache.engine_metrics import EngineDelta
from cache.errors import ReportBudgetError, ReportGroupError
from cache.report import Prices, Report, load_report
from cache.report_html import render_html
from cache.report_json import report_json, to_json
from cache.report_markdown import render_markdown
from cache.report_text import render_text
from cache.report_values import GivenAgain

router = APIRouter(dependencies=[Depends(counted_for_users)])

_COUNTERS_S = 5.0
_UNITS = {"m": "minutes", "h": "hours", "d": "days"}
_FORMS: Mapping[str, tuple[Callable[[Report], str], str]] = {
    "text": (render_text, "text/plain; charset=utf-8"),
    "json": (to_json, "application/json"),
    "markdown": (render_markdown, "text/markdown; charset=utf-8"),
    "html": (render_html, "text/html; charset=utf-8"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asked:
    """A report as it was asked for."""

    now: datetime
    since: datetime | None
    until: datetime | None
    by: tuple[str, ...]
    tenant: str | None
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
    tenant: Annotated[str | None, Query()] = None,
) -> Response:
    """One report in one form; with `forms`, JSON that has it in several, all as of one moment.

    An admin's key sees all tenants' requests together, or those of one; another sees its own.
    """
    services, caller = services_of(request), caller_of(request)
    if not caller.is_admin:
        tenant = caller.tenant
    now = datetime.now(UTC)
    asked = _Asked(
        now=now,
        since=parse_moment(since, now, "since"),
        until=parse_moment(until, now, "until"),
        by=_words(by),
        tenant=tenant,
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
    return Response(text, media_type=media_type, headers=PAGE_HEADERS)


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
    """The report; the database is read beside the event loop, the prefix index on it.

    What engines and the index count is of all tenants together: a report of one leaves it out.
    """
    everybody = asked.tenant is None
    counted = await _counted(services) if everybody else ()
    index = services.accounting.index
    flame = index.flame() if index is not None and everybody else None
    prices = _prices(services, asked.price_per_gpu_hour)

    def load() -> Report:
        services.ledger.flush()
        with snapshot(services.database) as connection:
            made = load_report(
                connection,
                now=asked.now,
                since=asked.since,
                until=asked.until,
                by=asked.by,
                tenant=asked.tenant,
                budgets=asked.budgets,
                counted=counted,
                ledger=services.ledger.status if everybody else None,
                flame=flame if flame is not None and flame.children else None,
                prices=prices,
                top=asked.top,
            )
            return replace(made, given_again=_given_again(connection, asked))

    try:
        return await anyio.to_thread.run_sync(load)
    except ReportGroupError as error:
        raise InvalidRequestError(str(error), param="by") from error


def _given_again(connection: sqlalchemy.Connection, asked: _Asked) -> GivenAgain:
    """What the response cache answered in the hours that have a part in the window."""
    since = asked.since.timestamp() if asked.since else 0.0
    until = (asked.until or asked.now).timestamp()
    given = given_in(
        connection,
        tenant=asked.tenant,
        since_hour=int(since) // HOUR_S,
        until_hour=int(until) // HOUR_S,
    )
    return GivenAgain(
        answers=given.answers,
        prompt_tokens=given.prompt_tokens,
        completion_tokens=given.completion_tokens,
    )


async def _counted(services: Services) -> tuple[EngineDelta, ...]:
    """An engine that is silent doesn't hold the report up."""
    with anyio.move_on_after(_COUNTERS_S):
        return await services.fleet.counted()
    return ()


def _prices(services: Services, per_gpu_hour: float | None) -> Prices | None:
    speed = services.fleet.speed
    if speed is None:
        return None
    try:
        gpus = engine_ranks(services.fleet.view().info.settings)
    except EngineNotReadyError:
        gpus = 1
    if per_gpu_hour is None:
        per_gpu_hour = services.settings.report.price_per_gpu_hour
    return Prices(speed=speed, gpus_per_rank=gpus, per_gpu_hour=per_gpu_hour)


def _several(made: Report, forms: tuple[str, ...]) -> Response:
    rendered = {form: _FORMS[form][0](made) for form in forms}
    return JSONResponse({"report": report_json(made), "forms": rendered}, headers=PAGE_HEADERS)


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
