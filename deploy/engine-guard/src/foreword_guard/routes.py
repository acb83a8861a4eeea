"""The tier's own routes, in LMCache's HTTP server (`--http-port`).

    GET    /foreword/status             adapters, counters, evictions
    GET    /foreword/loads/{rid}        which tier served each chunk of a request's load
    PUT    /foreword/adapters/{name}    use an adapter, or don't
    DELETE /foreword/salts/{salt}       destroy a salt's key

Like LMCache's own routes they ask for no password: the port is for this machine, or for a network
of the operator's alone.
"""

import asyncio
import threading
import time
from typing import Any

from fastapi import APIRouter, HTTPException, Request
from pydantic import BaseModel

from foreword_guard.adapter_health import Switch
from foreword_guard.errors import SaltKeyError
from foreword_guard.salt_keys import is_salt
from foreword_guard.tier_state import TierState, UnknownAdapterError

# Chunks that a request is reading now are dropped when it lets go of them, which it does within
# LMCache's own limit for that (300 s).
_PURGE_S = 400.0
_PURGE_STEP_S = 1.0


class SwitchBody(BaseModel):
    """What PUT is given."""

    enabled: bool
    reason: str = ""


def foreword_routes(state: TierState) -> APIRouter:
    """The router to include in LMCache's app."""
    router = APIRouter(prefix="/foreword")

    @router.get("/status")
    def status(request: Request) -> Any:
        used_bytes, capacity_bytes = _l1_managers(request)[0].get_memory_usage()
        return state.status(used_bytes=used_bytes, capacity_bytes=capacity_bytes)

    @router.get("/loads/{request_id:path}")
    def load_of(request_id: str, held: int = 0) -> Any:
        found = state.load_of(request_id, held_tokens=held)
        if found is None:
            raise HTTPException(404, f"no load of request {request_id!r} is known")
        return found

    @router.put("/adapters/{name}")
    def switch(name: str, body: SwitchBody) -> Any:
        reason = body.reason or ("" if body.enabled else "switched off")
        try:
            state.switch(name, Switch(enabled=body.enabled, reason=reason or None))
        except UnknownAdapterError as error:
            raise HTTPException(404, f"there is no adapter {name!r}") from error
        return {"name": name, "enabled": body.enabled, "reason": reason or None}

    @router.delete("/salts/{salt:path}")
    async def destroy(salt: str, request: Request) -> Any:
        if not is_salt(salt):
            named = f"{salt[:40]!r} is no salt" if salt else "no salt is named"
            raise HTTPException(422, f"{named}: name the one whose KV is to be destroyed for good")
        managers = _l1_managers(request)
        try:
            await asyncio.to_thread(state.destroy_salt, salt)
        except SaltKeyError as error:
            raise HTTPException(500, str(error)) from error
        dropped, left = await asyncio.to_thread(_purge, managers, salt)
        if left:
            threading.Thread(target=_purge_rest, args=(managers, salt), daemon=True).start()
        return {"salt": salt, "destroyed": True, "ram_chunks": dropped}

    return router


def install(state: TierState) -> None:
    """Put the routes into LMCache's HTTP server."""
    from lmcache.v1.multiprocess.http_server import app

    app.include_router(foreword_routes(state))


def _l1_managers(request: Request) -> list[Any]:
    engine = getattr(request.app.state, "engine", None)
    if engine is None:
        raise HTTPException(503, "the tier is still starting")
    return list(engine.storage_manager._l1_managers_by_id.values())


def _purge(managers: list[Any], salt: str) -> tuple[int, int]:
    """Drop a salt's chunks from RAM; returns how many, and how many are being read."""
    dropped = left = 0
    for manager in managers:
        keys = [key for key in list(manager._objects) if key.cache_salt == salt]
        manager.delete(keys)
        remaining = sum(key in manager._objects for key in keys)
        dropped += len(keys) - remaining
        left += remaining
    return dropped, left


def _purge_rest(managers: list[Any], salt: str) -> None:
    deadline_s = time.monotonic() + _PURGE_S
    while _purge(managers, salt)[1] and time.monotonic() < deadline_s:
        time.sleep(_PURGE_STEP_S)
