"""`/foreword/templates`: the templates of this deployment, and what lint says of each."""

from dataclasses import replace
from functools import partial
from typing import Any

import anyio
from fastapi import APIRouter, Request

from app.callers import require_admin
from app.errors import EngineLeaksError, EngineNotReadyError
from app.replica_view import ReplicaView
from app.services import Services, services_of
from app.template_view import view_template
from app.tiers import sides_of
from prompts.lint.options import LintOptions

router = APIRouter(prefix="/foreword/templates")


@router.get("")
async def templates(request: Request) -> dict[str, Any]:
    """The templates, by name and version."""
    return {
        "data": [{"name": t.name, "version": t.version} for t in services_of(request).templates]
    }


@router.get("/{reference}")
async def template(request: Request, reference: str) -> dict[str, Any]:
    """One template, by `name` or `name@version`: segments, tokens, and findings with their cost.

    It shows the instructions that all tenants' prompts begin with: an admin's key is needed.
    """
    require_admin(request)
    services = services_of(request)
    found = services.templates.find(reference)
    view = _view(services)
    options = LintOptions(tokenizer=None if view is None else view.tokenizer)
    if view is not None:
        options = replace(options, page_size=view.info.page_tokens)
    told = (side.chunk_tokens() for side in sides_of(services.fleet.replicas))
    chunk_tokens = next((tokens for tokens in told if tokens is not None), None)
    if chunk_tokens is not None:
        options = replace(options, chunk_size=chunk_tokens)
    look = partial(
        view_template, found, tokenizer=None if view is None else view.tokenizer, options=options
    )
    return (await anyio.to_thread.run_sync(look)).json()


def _view(services: Services) -> ReplicaView | None:
    """What is known of the engine; while none answers, templates are shown without tokens."""
    try:
        return services.fleet.view()
    except (EngineNotReadyError, EngineLeaksError):
        return None
