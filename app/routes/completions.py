"""`POST /v1/completions`: text in, text out, by the same pipeline as chat completions."""

from fastapi import APIRouter, Request
from fastapi.responses import Response

from app.accounts import Account
from app.admission.admitting import admit
from app.callers import tenant_of
from app.completions import CompletionRequest
from app.completions.answer import CompletionAnswer, OnePrompt
from app.completions.form import CompletionForm
from app.errors import ContextLengthError
from app.pipeline import begin, open_account
from app.routes.bodies import parse_body
from app.services import Services, services_of

router = APIRouter()

_ID = "cmpl-"


@router.post("/v1/completions")
async def completions(request: Request) -> Response:
    """OpenAI's text completions: each prompt, a text or token ids, is gone on with as it is."""
    services = services_of(request)
    tenant = tenant_of(request)
    first = open_account(services, tenant=tenant, prefix=_ID)
    request.state.request_id = first.request_id
    body = await parse_body(request, CompletionRequest)
    each = body.each()
    others = [open_account(services, tenant=tenant, prefix=_ID) for _ in each[1:]]
    body = await admit(
        request,
        body,
        first,
        *others,
        prompts=len(each),
        received_bytes=len(await request.body()),
    )
    prompts: list[OnePrompt] = []
    # Admission may have set limits that the client left open.
    for number, (one, account) in enumerate(zip(body.each(), [first, *others], strict=True)):
        await _begin(services, one, account)
        form = CompletionForm(
            first.request_id, echoed=_echoed(one, account), first_choice=number * body.copies
        )
        prompts.append(OnePrompt(one, account, form))
    return CompletionAnswer(services, prompts)


def _echoed(request: CompletionRequest, account: Account) -> str | None:
    """The prompt's text where the client wants it back."""
    assert account.prepared is not None
    return account.prepared.rendered.segments[0].text if request.echo else None


async def _begin(services: Services, request: CompletionRequest, account: Account) -> None:
    """Prepare the request; what is at fault is named as in this API."""
    try:
        await begin(services, request, account)
    except ContextLengthError as error:
        error.param = "prompt"
        raise
