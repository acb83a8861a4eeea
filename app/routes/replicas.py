"""`/foreword/replicas`: which engines there are, and what an operator does with them.

An order holds for all gateways on the database, and after they were started again.
"""

import time
from dataclasses import asdict
from typing import Any

from fastapi import APIRouter, Request
from pydantic import BaseModel, ConfigDict, Field

from app.callers import require_admin
from app.fleet.addresses import Listening, replica_url, require_reachable_kind
from app.replica import Replica
from app.routes.bodies import parse_body
from app.services import services_of
from app.tiers import TierSide

router = APIRouter(prefix="/foreword/replicas")


class NewReplica(BaseModel):
    """An engine to be added."""

    model_config = ConfigDict(extra="forbid")

    url: str = Field(description="base URL of a running SGLang server")
    name: str | None = Field(
        None,
        pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$",
        description="by default host and port",
    )


@router.get("")
async def replicas(request: Request) -> dict[str, Any]:
    """All replicas: state, load, breaker, and what is believed to be in their caches."""
    require_admin(request)
    services = services_of(request)
    return {
        "object": "list",
        "data": [replica_object(replica) for replica in services.fleet.replicas],
        "source_problem": services.fleet.source_problem,
    }


@router.post("", status_code=201)
async def add(request: Request) -> dict[str, Any]:
    """Add a replica; it gets requests when it was met, fits the others and is warm."""
    caller, services = require_admin(request), services_of(request)
    body = await parse_body(request, NewReplica)
    url = replica_url(body.url)
    server = request.scope.get("server")
    own = Listening(services.settings.gateway.host, server[1] if server else 0)
    await require_reachable_kind(url, own=own)
    replica = await services.orders.add(url, name=body.name, by=caller)
    return replica_object(replica)


@router.post("/{name:path}/cordon")
async def cordon(request: Request, name: str) -> dict[str, Any]:
    """Send it no new requests; its cache stays, and so do requests under way."""
    caller, services = require_admin(request), services_of(request)
    return replica_object(await services.orders.cordon(name, by=caller))


@router.post("/{name:path}/uncordon")
async def uncordon(request: Request, name: str) -> dict[str, Any]:
    """Send it requests again, also if it was being drained."""
    caller, services = require_admin(request), services_of(request)
    return replica_object(await services.orders.uncordon(name, by=caller))


@router.post("/{name:path}/drain")
async def drain(request: Request, name: str) -> dict[str, Any]:
    """Send it no new requests; it is removed when those under way have ended."""
    caller, services = require_admin(request), services_of(request)
    return replica_object(await services.orders.drain(name, by=caller))


@router.delete("/{name:path}")
async def remove(request: Request, name: str) -> dict[str, Any]:
    """Forget it now; requests under way there go on."""
    caller, services = require_admin(request), services_of(request)
    await services.orders.remove(name, by=caller)
    return {"name": name, "object": "foreword.replica.deleted", "deleted": True}


def replica_object(replica: Replica) -> dict[str, Any]:
    """What is known of one replica; what isn't known is null."""
    now, view = time.monotonic(), replica.seen
    return {
        "name": replica.name,
        "object": "foreword.replica",
        "url": replica.client.url,
        "state": replica.state.value,
        "cordoned": replica.cordoned,
        "reason": replica.problem,
        "version": view.info.version if view else None,
        "model": view.info.served_name if view else None,
        "load": {
            **asdict(replica.load),
            "in_flight": replica.meter.in_flight,
            "in_flight_everywhere": replica.meter.in_flight_everywhere,
        },
        "breaker": {
            "state": replica.breaker.state(now).value,
            "failures": replica.breaker.failures,
            "retry_in_s": round(replica.breaker.retry_in_s(now), 3),
        },
        "cache": {
            "pool_tokens": view.info.pool_tokens if view else None,
            "page_tokens": view.info.page_tokens if view else None,
            "kv_events": replica.address is not None,
            "event_batches": replica.events.status.batches,
            "events_lost": replica.events.status.unfilled_gaps,
            "problem": replica.events.status.problem,
        },
        "tiers": _tiers(replica.tier),
    }


def _tiers(tier: TierSide) -> dict[str, Any]:
    """The tier server that it loads from, as the last look told."""
    return {
        "url": tier.client.url if tier.client is not None else None,
        "own": bool(tier.name),
        "chunk_tokens": tier.chunk_tokens(),
        "problem": tier.watch.problem if tier.watch is not None else None,
    }
