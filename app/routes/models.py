"""`GET /v1/models`: what requests may name as their model."""

from typing import Any

from fastapi import APIRouter, Request

from app.adapters import model_names
from app.agents.request import PREFIX
from app.errors import ModelNotFoundError
from app.prepare import ALIAS, public_model
from app.services import Services, services_of

router = APIRouter(prefix="/v1/models")


@router.get("")
async def models(request: Request) -> dict[str, Any]:
    """The served model under its public name and its alias, the embedding model, the agents."""
    return {"object": "list", "data": list(_models(services_of(request)).values())}


@router.get("/{name:path}")
async def model(request: Request, name: str) -> dict[str, Any]:
    """One model."""
    known = _models(services_of(request))
    if name not in known:
        raise ModelNotFoundError(name, tuple(known))
    return known[name]


def _models(services: Services) -> dict[str, dict[str, Any]]:
    view = services.fleet.view()
    names = model_names(view, (public_model(services, view), ALIAS))
    listed = {name: _model(name, view.info.context_tokens) for name in names}
    embeddings = services.embeddings
    listed[embeddings.name] = _model(embeddings.name, embeddings.max_tokens)
    for agent in services.agents.library:
        name = PREFIX + agent.name
        listed[name] = _model(name, view.info.context_tokens, owned_by="foreword-agents")
    return listed


def _model(name: str, max_tokens: int | None, *, owned_by: str = "foreword") -> dict[str, Any]:
    """`max_tokens` are what it reads; None where nothing bounds it."""
    return {
        "id": name,
        "object": "model",
        "created": 0,
        "owned_by": owned_by,
        "max_model_len": max_tokens,
    }
