"""`/foreword/plan`: what the running engine's memory holds, and how fast its tiers are."""

from functools import partial
from typing import Annotated

import anyio
from fastapi import APIRouter, Query, Request
from fastapi.responses import JSONResponse, PlainTextResponse, Response

from app.errors import InvalidRequestError
from app.live_plan import live_plan
from app.services import LOCAL_TENANT, Services, services_of
from cache.kv_plan.live import live_json, live_text
from prompts import PromptTokenizer

router = APIRouter()


@router.get("/foreword/plan")
async def plan(
    request: Request,
    output: Annotated[str, Query(alias="format", pattern="^(text|json)$")] = "json",
    corpus_tokens: Annotated[int | None, Query(ge=1)] = None,
    collection: Annotated[str | None, Query()] = None,
) -> Response:
    """The live engine's KV, pool, tiers and prefill speed, and what a corpus would take of them.

    `collection` counts the tokens of its documents; `corpus_tokens` takes a number instead.
    """
    services = services_of(request)
    view = services.replica.view()
    if collection is not None:
        corpus_tokens = await _collection_tokens(services, collection, view.tokenizer)
    await services.speed.advance()
    live = await live_plan(
        view.info,
        speed=services.speed,
        policy=services.tier_policy,
        corpus_tokens=corpus_tokens,
    )
    if output == "text":
        return PlainTextResponse(live_text(live))
    return JSONResponse(live_json(live))


async def _collection_tokens(
    services: Services, name: str, tokenizer: PromptTokenizer | None
) -> int:
    """Tokens of all documents; the template's own words come on top."""
    if tokenizer is None:
        problem = "the model's tokenizer can't be read here: give corpus_tokens instead"
        raise InvalidRequestError(problem, param="collection")
    resolve = partial(services.collections.resolve, name, tenant=LOCAL_TENANT)
    found = await anyio.to_thread.run_sync(resolve)
    load = partial(services.collections.corpus, found.id, tenant=LOCAL_TENANT)
    documents = await anyio.to_thread.run_sync(load)
    return await anyio.to_thread.run_sync(
        lambda: sum(tokenizer.count(document.text) for document in documents)
    )
