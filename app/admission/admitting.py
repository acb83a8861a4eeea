"""A model request at the door: what it may cost, and what of it its tenant's limits change."""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeVar

from starlette.requests import ClientDisconnect, HTTPConnection, Request

from app.accounts import Account
from app.callers import Caller, Priority, caller_of
from app.completions import CompletionRequest
from app.errors import InvalidRequestError, OutputLimitError
from app.hot.departure import ended_by_departure
from app.observation import stage
from app.schemas import ChatCompletionRequest
from app.services import services_of

Body = TypeVar("Body", ChatCompletionRequest, CompletionRequest)

DEADLINE_HEADER = "x-foreword-deadline-s"
_RAW_HEADER = DEADLINE_HEADER.encode()
# English text; the estimate is put right when the answer has come.
_BYTES_A_TOKEN = 4
# Where nobody says how long an answer may be.
_USUAL_ANSWER = 256


async def admit(
    request: HTTPConnection, body: Body, *accounts: Account, prompts: int = 1, received_bytes: int
) -> Body:
    """Let a request in; returns it with its answer's length within the tenant's limits.

    `Authentication` closes the ticket when the request has ended.

    Args:
        accounts: of the request, one for each prompt.
        prompts: how many it holds.
        received_bytes: of its body.

    Raises:
        OutputLimitError: it asks for more than its tenant may have.
        AdmissionError: it can't be let in now.
        ClientDisconnect: its client left while it waited.
    """
    services, caller = services_of(request), caller_of(request)
    body = _bounded(body, caller, prompts, services.settings.gateway.default_max_tokens)
    options = body.foreword
    deadline_s = _deadline_s(request, options.deadline_s if options else None)
    answer = (body.completion_limit or _USUAL_ANSWER) * _copies(body) * prompts
    with stage("admit"), _ended_with_client(request):
        ticket = await services.admission.enter(
            caller,
            cost_tokens=received_bytes // _BYTES_A_TOKEN + answer,
            priority=Priority.of(options.priority) if options and options.priority else None,
            deadline_s=deadline_s,
        )
    request.scope["state"]["ticket"] = ticket
    for account in accounts:
        account.ticket = ticket
        account.deadline_s = deadline_s
        account.max_prompt_tokens = caller.limits.max_prompt_tokens
    return body


@contextmanager
def _ended_with_client(request: HTTPConnection) -> Iterator[None]:
    """What waits in it gives its place on when the client leaves; who asks for a request within
    another one looks after that itself.

    Raises:
        ClientDisconnect: that came to pass.
    """
    if not isinstance(request, Request):
        yield
        return
    with ended_by_departure(request.scope, request.receive):
        yield
        return
    raise ClientDisconnect


def _bounded(body: Body, caller: Caller, prompts: int, default: int | None) -> Body:
    """The request with a length for its answer where there must be one and it names none.

    Raises:
        OutputLimitError: what it names is too long.
    """
    most, answers = caller.limits.max_output_tokens, _copies(body) * prompts
    asked = body.completion_limit
    if asked is not None:
        if most is not None and asked * answers > most:
            raise OutputLimitError(asked * answers, most)
        return body
    bounds = [default] if default is not None else []
    if most is not None:
        if answers > most:
            raise OutputLimitError(answers, most)
        bounds.append(most // answers)
    return body.model_copy(update={"max_tokens": min(bounds)}) if bounds else body


def _copies(body: ChatCompletionRequest | CompletionRequest) -> int:
    if isinstance(body, CompletionRequest):
        return body.copies
    copies = body.extras.get("n")
    return copies if isinstance(copies, int) and copies > 0 else 1


def _deadline_s(request: HTTPConnection, option_s: float | None) -> float | None:
    """The sooner of the header's and the body's.

    Raises:
        InvalidRequestError: the header isn't a number of seconds.
    """
    header = None
    for name, value in request.scope["headers"]:  # all in lower case
        if name == _RAW_HEADER:
            header = value.decode("latin-1")
            break
    if header is None:
        return option_s
    try:
        seconds = float(header)
    except ValueError:
        seconds = math.nan
    if not 0 < seconds < math.inf:
        problem = f"{DEADLINE_HEADER}: {header!r} is not a number of seconds above 0, as in 2.5"
        raise InvalidRequestError(problem, param=DEADLINE_HEADER)
    return seconds if option_s is None else min(seconds, option_s)
