"""How many tokens a response's prompt would have: it is made as for the response, and not sent."""

from collections.abc import Mapping, Sequence
from typing import cast

from app.accounts import Account
from app.errors import ContextLengthError, CorpusTooLargeError, InvalidRequestError
from app.prepare import prepare
from app.responses.bodies import ResponsesRequest
from app.responses.convert import chat_request
from app.responses.running import named_as_here
from app.services import Services
from app.stored.turn import Turn


class InputTokensRequest(ResponsesRequest):
    """The body of `POST /v1/responses/input_tokens`."""

    model: str = "default"


async def input_tokens(services: Services, body: ResponsesRequest, account: Account) -> int:
    """Tokens of the prompt, also of one that is a little longer than the model's context.

    A conversation is read and not taken; one that is due is counted as it was before compaction.

    Raises:
        InvalidRequestError and below: there is no such prompt, or it is too long to be counted.
        EngineError: only the engine could count, and doesn't.
    """
    turn = await Turn.read(services, body, account)
    allowed = frozenset(services.settings.gateway.extra_fields)
    try:
        chat = chat_request(body, allowed, turn.messages())
        made = await prepare(
            services,
            chat,
            tenant=account.tenant,
            request_id=account.request_id,
            resumption=account.resumption,
        )
    except (ContextLengthError, CorpusTooLargeError) as error:
        if error.prompt_tokens is None:
            named_as_here(error)
            raise
        return error.prompt_tokens
    except InvalidRequestError as error:
        named_as_here(error)
        raise
    if made.prompt is not None:
        return made.prompt.tokens
    messages = cast("Sequence[Mapping[str, object]]", made.body["messages"])
    tools = cast("Sequence[object]", made.body.get("tools") or ())
    return len(await services.fleet.any().client.tokenize(messages, tools))
