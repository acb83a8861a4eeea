"""Agents, their runs, and what somebody has to decide about them."""

from functools import partial
from typing import Annotated, Any

import anyio
from fastapi import APIRouter, Depends, Query, Request
from pydantic import BaseModel, ConfigDict, Field

from app.admission.counting import counted
from app.agents.agents import Agents
from app.agents.bodies import Decision
from app.agents.objects import agent_object, run_object
from app.callers import tenant_of
from app.paging import list_object
from app.routes.bodies import parse_body
from app.services import services_of

router = APIRouter(prefix="/foreword/agents", dependencies=[Depends(counted)])


class RunsQuery(BaseModel):
    """How many runs are listed."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    limit: Annotated[int, Field(ge=1, le=100)] = 20


@router.get("")
async def all_of_them(request: Request) -> dict[str, Any]:
    """The agents that a request may name."""
    library = services_of(request).agents.library
    return list_object([agent_object(agent) for agent in library], has_more=False)


@router.get("/runs")
async def runs(request: Request, query: Annotated[RunsQuery, Query()]) -> dict[str, Any]:
    """The tenant's newest runs."""
    store = services_of(request).agents.store
    load = partial(store.page, tenant=tenant_of(request), limit=query.limit)
    found = await anyio.to_thread.run_sync(load)
    return list_object([run_object(run) for run in found], has_more=False)


@router.get("/runs/{run_id}")
async def run(request: Request, run_id: str) -> dict[str, Any]:
    """One run: its steps, what was re-used for each, its calls, and what waits for a decision."""
    show = partial(_shown, services_of(request).agents, run_id, tenant_of(request))
    return await anyio.to_thread.run_sync(show)


@router.post("/runs/{run_id}/decide")
async def decide(request: Request, run_id: str) -> dict[str, Any]:
    """Say what is to be done about a call of which nobody knows whether it was made."""
    agents, tenant = services_of(request).agents, tenant_of(request)
    body = await parse_body(request, Decision)
    if body.action == "retry":
        done = partial(agents.retry, run_id, body.call_id, tenant=tenant)
    else:
        done = partial(agents.skip, run_id, body.call_id, tenant=tenant, output=body.output)
    await anyio.to_thread.run_sync(done)
    agents.changed()
    return await anyio.to_thread.run_sync(partial(_shown, agents, run_id, tenant))


@router.post("/runs/{run_id}/cancel")
async def cancel(request: Request, run_id: str) -> dict[str, Any]:
    """End a run: the engine and the tools are stopped, and its conversation is as it was."""
    agents, tenant = services_of(request).agents, tenant_of(request)
    run = await anyio.to_thread.run_sync(partial(agents.cancel, run_id, tenant=tenant))
    agents.stop(run.id)
    agents.changed()
    return await anyio.to_thread.run_sync(partial(_shown, agents, run.id, tenant))


def _shown(agents: Agents, run_id: str, tenant: str) -> dict[str, Any]:
    run = agents.run(run_id, tenant=tenant)
    waiting = () if run.status.is_end else agents.waiting(run)
    return run_object(run, agents.steps(run_id), waiting, agents.store.children(run_id))
