"""`POST /v1/chat/completions` and `GET /v1/models`."""

from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import Response

from app.errors import ModelNotFoundError
from app.pipeline import begin, open_account
from app.prepare import ALIAS, public_model
from app.routes.answering import Answer
from app.routes.bodies import parse_body
from app.schemas import ChatCompletionRequest
from app.services import LOCAL_TENANT, Services, services_of
from app.stream_forms import ChatForm

router = APIRouter()


@router.post("/v1/chat/completions")
async def chat_completions(request: Request) -> Response:
    """OpenAI's chat completions, with Foreword's fields under `foreword`."""
    services = services_of(request)
    account = open_account(services, tenant=LOCAL_TENANT)
    request.state.request_id = account.request_id
    body = await parse_body(request, ChatCompletionRequest)
    await begin(services, body, account)
    return Answer(services, body, account, whole=dict, form=ChatForm())


@router.get("/v1/models")
async def models(request: Request) -> dict[str, Any]:
    """The served model under its public name and its alias."""
    services = services_of(request)
    view = services.replica.view()
    return {
        "object": "list",
        "data": [_model(name, view.info.context_tokens) for name in _names(services)],
    }


@router.get("/v1/models/{name:path}")
async def model(request: Request, name: str) -> dict[str, Any]:
    """One model."""
    services = services_of(request)
    names = _names(services)
    if name not in names:
        raise ModelNotFoundError(name, names)
    return _model(name, services.replica.view().info.context_tokens)


def _names(services: Services) -> tuple[str, str]:
    return public_model(services, services.replica.view()), ALIAS


def _model(name: str, context_tokens: int) -> dict[str, Any]:
    return {
        "id": name,
        "object": "model",
        "created": 0,
        "owned_by": "foreword",
        "max_model_len": context_tokens,
    }
