"""`POST /v1/chat/completions`."""

from fastapi import APIRouter, Request
from fastapi.responses import Response

from app.admission.admitting import admit
from app.callers import tenant_of
from app.pipeline import begin, open_account
from app.response_cache.serving import kept_or_new
from app.routes.answering import Answer
from app.routes.bodies import parse_body
from app.schemas import ChatCompletionRequest
from app.services import services_of
from app.stream_forms import ChatForm
from app.tool_names import check_chat_tools

router = APIRouter()


@router.post("/v1/chat/completions")
async def chat_completions(request: Request) -> Response:
    """OpenAI's chat completions, with Foreword's fields under `foreword`."""
    services = services_of(request)
    account = open_account(services, tenant=tenant_of(request))
    request.state.request_id = account.request_id
    body = await parse_body(request, ChatCompletionRequest)
    check_chat_tools(body.extras.get("tools"))
    received = len(await request.body())
    body = await admit(request, body, account, received_bytes=received)
    await begin(services, body, account)
    if (cache := services.response_cache) is None:
        return Answer(services, body, account, whole=dict, form=ChatForm())
    return await kept_or_new(
        cache,
        services,
        request,
        body,
        account,
        whole=dict,
        form=ChatForm(),
        new=lambda whole, form: Answer(services, body, account, whole=whole, form=form),
    )
