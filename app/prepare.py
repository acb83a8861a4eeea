"""From a client's request to what the engine gets: template, documents, token ids, salt, labels."""

from dataclasses import replace

from app.adapters import asked_model
from app.asking import NO_CONTEXT, Asking, made_anew, salts_of
from app.context import Context
from app.errors import (
    ContextLengthError,
    CorpusTooLargeError,
)
from app.hot.stems import ids_json, messages_json
from app.making import MadePrompt
from app.prepared import Prepared, Retrieval
from app.replica_view import ReplicaView
from app.sampling_limits import check_sampling
from app.schemas import (
    FORWARDED_FIELDS,
    ChatCompletionRequest,
    ForewordOptions,
    Mode,
    check_fields,
)
from app.services import Services
from app.stored.records import Resumption
from app.tool_listing import NO_TOOLS, Listing
from app.turn_text import EXCERPTS
from prompts import TokenizedPrompt, Tool

ALIAS = "default"
_NO_OPTIONS = ForewordOptions()
# What a tool's canonical spelling takes as long as.
_TOOL_CHARACTERS = 64


async def prepare(
    services: Services,
    request: ChatCompletionRequest,
    *,
    tenant: str,
    request_id: str,
    resumption: Resumption | None = None,
) -> Prepared:
    """Decide, retrieve, render, count. A stored conversation brings its `resumption`.

    Raises:
        InvalidRequestError and below: the request can't be answered as it is.
        PromptError: the template or a value is at fault.
        EngineNotReadyError: there is no engine to render for.
    """
    view = services.fleet.view()
    check_fields(request, services.settings.gateway.extra_fields)
    check_sampling(request.extras, view.tokenizer)
    model = public_model(services, view)
    named = asked_model(view, request.model, (model, ALIAS))
    options = request.foreword or _NO_OPTIONS
    template = services.templates.find(
        options.template or ("docqa" if options.collection is not None else "chat")
    )
    listing = Listing(
        services=services,
        view=view,
        request=request,
        tools=await _tools(services, request),
        tenant=tenant,
        about=(template.reference, named.adapter or ""),
        resumption=resumption,
    )
    listed = listing.listed()
    asking = Asking(
        services=services,
        view=view,
        request=listed.request,
        options=options,
        template=template,
        tools=listed.shown,
        tenant=tenant,
        salt_of=salts_of(services.salts, resumption, tenant=tenant, adapter=named.adapter),
        resumption=resumption,
    )
    made, context, messages = await _made(asking)
    if listed.is_new and listed.shown and listing.goes_on and _began_bare(asking, made):
        listed = listing.after(NO_TOOLS)
        asking = replace(asking, request=listed.request, tools=listed.shown)
        made, context, messages = await _made(asking)
    prompt, tokenized, salt = made.prompt, made.tokenized, made.salt
    if tokenized is not None:
        _check_length(view, request, context, tokenized.tokens)
    if context.remember is not None:
        context.remember(None)
    return Prepared(
        request_id=request_id,
        tenant=tenant,
        salt=salt,
        model=named.public,
        adapter=named.adapter,
        template=template.reference,
        body=_engine_body(services, view, request, tokenized, messages)
        | {"model": named.engine, "rid": request_id, "cache_salt": salt}
        | listed.fields,
        labels={"template": template.reference, "tenant": tenant},
        rendered=prompt,
        prompt=tokenized,
        collection=context.collection,
        mode=context.mode,
        mode_reason=context.reason,
        sources=context.sources,
        decision=context.decision,
        retrieval=_counted(context.retrieval, tokenized),
        tokenizer=view.tokenizer if tokenized is not None else None,
        transcript=made.transcript,
        remember=listing.remember(listed, context.remember),
        listed=listed,
        inherent=made.inherent,
    )


async def _tools(services: Services, request: ChatCompletionRequest) -> tuple[Tool, ...]:
    given = request.extras.get("tools")
    number = len(given) if isinstance(given, list | tuple) else 0
    return await services.aside.done(request.tools, characters=_TOOL_CHARACTERS * number)


async def _made(asking: Asking) -> tuple[MadePrompt, Context, object]:
    """The prompt with what was found for it, and its messages as the engine takes them."""
    key = asking.stem_key()
    made = await asking.from_stem(key) if key is not None else None
    if made is not None:
        stem = made.tokenized.stem if made.tokenized else None
        return made, NO_CONTEXT, messages_json(made.prompt, stem)
    made, context, messages = await made_anew(asking)
    if key is not None:
        asking.met(key, made)
    return made, context, messages


def _began_bare(asking: Asking, made: MadePrompt) -> bool:
    """Whether the conversation's last answer is known from a prompt that showed no tools."""
    tokenizer = asking.view.tokenizer
    if tokenizer is None or made.tokenized is None:
        return False
    bare = replace(made.prompt, tools=())
    return asking.services.conversations.said(made.salt, bare, tokenizer) is not None


def public_model(services: Services, view: ReplicaView) -> str:
    """The name that clients see."""
    return services.settings.engine.model or view.info.served_name.rsplit("/", 1)[-1].lower()


def _counted(retrieval: Retrieval | None, prompt: TokenizedPrompt | None) -> Retrieval | None:
    """What the search found, with the tokens that it takes in the prompt."""
    if retrieval is None or prompt is None:
        return retrieval
    tokens = sum(part.stop - part.start for part in prompt.ranges if part.segment.id == EXCERPTS)
    return replace(retrieval, found_tokens=tokens)


def _check_length(
    view: ReplicaView, request: ChatCompletionRequest, context: Context, prompt_tokens: int
) -> None:
    limit = view.info.context_tokens
    if context.mode is Mode.CAG and context.collection and prompt_tokens >= limit:
        raise CorpusTooLargeError(context.collection, prompt_tokens, limit)
    reserved = request.completion_limit or 1
    if prompt_tokens + reserved > limit:
        raise ContextLengthError(prompt_tokens, reserved, limit)


def _engine_body(
    services: Services,
    view: ReplicaView,
    request: ChatCompletionRequest,
    tokenized: TokenizedPrompt | None,
    messages: object,
) -> dict[str, object]:
    body: dict[str, object] = {
        "model": view.info.served_name,
        "messages": messages,
        "return_cached_tokens_details": True,
        "stream": request.stream,
    }
    if tokenized is not None:
        body["input_ids"] = ids_json(tokenized)
        # The answer's ids are part of what the engine can re-use later.
        body["return_output_ids_in_sglext"] = True
    if request.stream:
        # In every part: of an answer that is given up, its re-use would be unknown otherwise.
        body["stream_options"] = {"include_usage": True, "continuous_usage_stats": True}
    priority = services.corpora.request_priority()
    if priority is not None:
        body["priority"] = priority
    if request.completion_limit is not None:
        body["max_tokens"] = request.completion_limit
    allowed = services.settings.gateway.extra_fields
    for name, value in request.extras.items():
        if name in FORWARDED_FIELDS or name in allowed:
            body[name] = value
    return body
