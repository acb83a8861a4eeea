"""`/foreword/plan`: what the running engine's memory holds, how fast its tiers are, and what each
collection's questions cost by retrieval and with the whole collection."""

from functools import partial
from typing import Annotated

import anyio
from fastapi import APIRouter, Depends, Query, Request
from fastapi.responses import JSONResponse, PlainTextResponse, Response
from pydantic import BaseModel, ConfigDict, Field

from app.admission.counting import counted_for_users
from app.callers import tenant_of
from app.errors import InvalidRequestError
from app.live_plan import live_plan
from app.modes.gate import QualityScores
from app.modes.money import Prices
from app.modes.prices import DECIDABLE
from app.modes.table import ModeRow, mode_row, money_json, row_json, rows_text, scores_json
from app.routes.bodies import parse_body
from app.schemas import Mode
from app.services import Services, services_of
from cache.kv_plan.live import live_json, live_text
from retrieval import Collection

router = APIRouter(dependencies=[Depends(counted_for_users)])

_Score = Annotated[float, Field(ge=0, le=1)]
_Metric = Annotated[str, Field(pattern="^(exact_match|token_f1|judge)$")]


class QualityBody(BaseModel):
    """What `foreword plan --evaluate` found: one score a question in each mode, in one order."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    metric: _Metric
    revision: int
    model: str
    scores: Annotated[dict[Mode, list[_Score]], Field(min_length=1)]


@router.get("/foreword/plan")
async def plan(
    request: Request,
    output: Annotated[str, Query(alias="format", pattern="^(text|json)$")] = "json",
    corpus_tokens: Annotated[int | None, Query(ge=1)] = None,
    collection: Annotated[str | None, Query()] = None,
) -> Response:
    """The live engine's KV, pool, tiers and prefill speed, and what a corpus would take of them.

    `collection` counts the tokens of its documents; `corpus_tokens` takes a number instead. The
    table of modes is of that collection, else of all that were asked lately.
    """
    services = services_of(request)
    lead = services.fleet.any()
    await lead.speed.advance()
    rows = await _rows(services, collection, tenant=tenant_of(request))
    if collection is not None:
        corpus_tokens = await _corpus_tokens(services, collection, tenant=tenant_of(request))
    live = await live_plan(
        lead.view().info,
        speed=lead.speed,
        policy=lead.tier.policy,
        corpus_tokens=corpus_tokens,
    )
    if output == "text":
        return PlainTextResponse(live_text(live) + rows_text(rows))
    return JSONResponse(live_json(live) | {"modes": [_row_json(services, row) for row in rows]})


@router.put("/foreword/plan/quality/{collection:path}")
async def put_quality(request: Request, collection: str) -> JSONResponse:
    """Keep an evaluation: from now on `auto` heeds it."""
    services = services_of(request)
    body = await parse_body(request, QualityBody)
    found = await _resolved(services, collection, tenant=tenant_of(request))
    if body.revision != found.revision:
        raise InvalidRequestError(
            f"the documents changed while the questions were asked (revision {body.revision}, now "
            f"{found.revision}): ask them again",
            param="revision",
        )
    scores = _quality_scores(body)
    stored = await services.modes.save_scores(found, scores)
    gate = services.modes.gate(found)
    switches = {
        here.value: {
            there.value: {"passes": verdict.passes, "note": verdict.note}
            for there in scores.scores
            if there is not here
            for verdict in [gate(there, here)]
        }
        for here in scores.scores
    }
    return JSONResponse({"scores": scores_json(stored), "switches": switches})


def _quality_scores(body: QualityBody) -> QualityScores:
    """Raises InvalidRequestError: a mode that nobody answers in, or not one set of questions."""
    if not set(body.scores) <= set(DECIDABLE):
        raise InvalidRequestError("scores are of the modes rag, cag and hybrid", param="scores")
    if len({len(scores) for scores in body.scores.values()}) != 1 or not all(body.scores.values()):
        problem = "every mode needs a score for each of the same questions, one at least"
        raise InvalidRequestError(problem, param="scores")
    return QualityScores(
        metric=body.metric,
        revision=body.revision,
        model=body.model,
        scores={mode: tuple(scores) for mode, scores in body.scores.items()},
    )


def _row_json(services: Services, row: ModeRow) -> dict[str, object]:
    """The row with its costs in money, as far as prices are set."""
    told = services.settings.prices
    prices = None
    if told.input is not None:
        cached = told.input if told.cached_input is None else told.cached_input
        prices = Prices(input=told.input, cached_input=cached, output=told.output or 0.0)
    gpu_hour = services.settings.report.price_per_gpu_hour
    return row_json(row) | {"money": money_json(row, prices=prices, gpu_hour=gpu_hour)}


async def _rows(services: Services, name: str | None, *, tenant: str) -> list[ModeRow]:
    """The named collection's line; else of those that were asked since the gateway's start."""
    if name is not None:
        found = await _resolved(services, name, tenant=tenant)
        await services.modes.count(found)
        return [mode_row(services.modes, found)]
    load = partial(services.collections.list_all, tenant=tenant)
    everything = await anyio.to_thread.run_sync(load)
    return [mode_row(services.modes, each) for each in everything if services.modes.last(each.id)]


async def _resolved(services: Services, name: str, *, tenant: str) -> Collection:
    resolve = partial(services.collections.resolve, name, tenant=tenant)
    return await anyio.to_thread.run_sync(resolve)


async def _corpus_tokens(services: Services, name: str, *, tenant: str) -> int | None:
    """Tokens of the whole corpus as a prompt begins with it."""
    collection = await _resolved(services, name, tenant=tenant)
    status = await services.corpora.status_of(collection)
    if status.tokens is None:
        problem = status.problem or "the model's tokenizer can't be read here"
        raise InvalidRequestError(f"{problem}: give corpus_tokens instead", param="collection")
    return status.tokens
