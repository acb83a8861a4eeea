"""From a text or token ids to what the engine gets: checked ids, salt, labels.

A text becomes ids by the engine's own hand: which marks a model puts around a text, and what of it
spells a control token, its tokenizer alone decides. There is no template whose words a prompt could
pass itself off as, so control tokens in it are control tokens.
"""

from array import array
from collections.abc import Sequence
from functools import partial

from app.adapters import asked_model
from app.completions.body import (
    FORWARDED_FIELDS,
    CompletionRequest,
    check_completion,
)
from app.engine import TEXT_PATH
from app.errors import ContextLengthError, InvalidRequestError
from app.prepare import ALIAS, public_model
from app.prepared import Prepared
from app.replica_view import ReplicaView
from app.sampling_limits import check_sampling
from app.services import Services
from prompts import (
    Prompt,
    PromptTokenizer,
    RenderedSegment,
    SegmentTokens,
    TokenizedPrompt,
    Volatility,
)
from prompts.errors import TooManyTokensError

# What the ledger and the report know such prompts by; no template may have this name.
TEMPLATE = "completion"
_MOST_IDS = 2**32


async def prepare_text(
    services: Services, request: CompletionRequest, *, tenant: str, request_id: str
) -> Prepared:
    """Check and encode one prompt.

    Raises:
        InvalidRequestError and below: the request can't be answered as it is.
        EngineError: the engine doesn't tokenize the text.
        EngineNotReadyError: there is no engine.
    """
    view = services.fleet.view()
    check_completion(request, services.settings.gateway.extra_fields)
    check_sampling(request.extras, view.tokenizer)
    model = public_model(services, view)
    named = asked_model(view, request.model, (model, ALIAS))
    await _check_length(services, view, request)
    text, ids = await _encoded(services, view, request)
    reserved = request.completion_limit
    if len(ids) + reserved > view.info.context_tokens:
        raise ContextLengthError(len(ids), reserved, view.info.context_tokens)
    salt = services.salts.of(tenant, adapter=named.adapter)
    prompt = _tokenized(text, ids)
    return Prepared(
        request_id=request_id,
        tenant=tenant,
        salt=salt,
        model=named.public,
        adapter=named.adapter,
        template=TEMPLATE,
        body=_engine_body(services, request, ids)
        | {"model": named.engine, "rid": request_id, "cache_salt": salt},
        labels={"template": TEMPLATE, "tenant": tenant},
        path=TEXT_PATH,
        rendered=prompt.prompt,
        prompt=prompt,
    )


async def _check_length(services: Services, view: ReplicaView, request: CompletionRequest) -> None:
    """Keep a text from the engine that it would encode in vain.

    Raises:
        ContextLengthError: the text is longer than the model's window by far.
    """
    text, tokenizer, limit = request.prompt, view.tokenizer, view.info.context_tokens
    if not isinstance(text, str) or tokenizer is None or not view.parity.ok:
        return
    check = partial(tokenizer.check_count, text, limit=limit)
    try:
        await services.aside.done(check, characters=len(text))
    except TooManyTokensError as error:
        raise ContextLengthError(None, request.completion_limit, limit) from error


async def _encoded(
    services: Services, view: ReplicaView, request: CompletionRequest
) -> tuple[str, Sequence[int]]:
    """The prompt as text, where anybody knows it, and as ids."""
    match request.prompt:
        case str() as text:
            return text, await services.fleet.any().client.token_ids(text, with_marks=True)
        case ids:
            tokens = [token for token in ids if isinstance(token, int)]
            _check_ids(view.tokenizer, tokens)
            return view.tokenizer.decode(tokens) if view.tokenizer else "", tokens


def _check_ids(tokenizer: PromptTokenizer | None, ids: Sequence[int]) -> None:
    """Refuse ids that aren't the model's: the engine takes them, and dies of them.

    Raises:
        InvalidRequestError: names the first of them.
    """
    if tokenizer is None:
        problem = "token ids can't be checked for this model: send the prompt as text"
        raise InvalidRequestError(problem, param="prompt")
    known: set[int] = set()
    for place, token in enumerate(ids):
        if token in known:
            continue
        if not 0 <= token < _MOST_IDS or tokenizer.spelling(token) is None:
            problem = f"prompt: token {place} is {token}, which is not in the model's vocabulary"
            raise InvalidRequestError(problem, param="prompt")
        known.add(token)


def _tokenized(text: str, ids: Sequence[int]) -> TokenizedPrompt:
    """The prompt as one segment, the client's own."""
    segment = RenderedSegment(
        id="prompt", role="user", volatility=Volatility.SESSION, text=text, message=0
    )
    return TokenizedPrompt(
        prompt=Prompt(template=TEMPLATE, segments=(segment,)),
        token_ids=tuple(ids),
        ranges=(SegmentTokens(segment=segment, start=0, stop=len(ids)),),
        packed=array("I", ids).tobytes(),
    )


def _engine_body(
    services: Services, request: CompletionRequest, ids: Sequence[int]
) -> dict[str, object]:
    body: dict[str, object] = {
        "prompt": list(ids),
        "max_tokens": request.completion_limit,
        "stream": request.stream,
        "return_cached_tokens_details": True,
        # The answer's ids are part of what the engine can re-use later.
        "return_token_ids": True,
    }
    if request.stream:
        # In every part: of an answer that is given up, its re-use would be unknown otherwise.
        body["stream_options"] = {"include_usage": True, "continuous_usage_stats": True}
    if request.n is not None:
        body["n"] = request.n
    if request.logprobs is not None:
        body["logprobs"] = request.logprobs
    priority = services.corpora.request_priority()
    if priority is not None:
        body["priority"] = priority
    allowed = FORWARDED_FIELDS | frozenset(services.settings.gateway.extra_fields)
    body.update({name: value for name, value in request.extras.items() if name in allowed})
    return body
