"""From a client's request to what the engine gets: template, documents, token ids, salt, labels."""

import time
from collections.abc import Callable, Mapping
from dataclasses import replace

import anyio.from_thread
import orjson

from app.context import Asked, Context, find_context
from app.errors import (
    ContextLengthError,
    CorpusTooLargeError,
    InvalidRequestError,
    ModelNotFoundError,
)
from app.making import MadePrompt, make_prompt
from app.messages import message_object, own_messages
from app.prepared import Prepared, Retrieval
from app.replica import ReplicaView
from app.schemas import (
    FORWARDED_FIELDS,
    ChatCompletionRequest,
    ForewordOptions,
    Mode,
    check_fields,
    split_messages,
)
from app.services import Services
from app.turn_text import EXCERPTS, PAD, TurnWriter
from cache.prefix_index import PrefixIndex
from prompts import (
    Message,
    Prompt,
    RenderedSegment,
    Template,
    TokenizedPrompt,
    render,
)
from prompts.errors import ChatTemplateError, UnknownVariableError
from prompts.plain_values import plain_value
from prompts.render import Value

ALIAS = "default"
# Variables that the gateway fills from messages and collections.
_FILLED_BY_REQUESTS = frozenset(
    {"conversation", "documents", EXCERPTS, "history", "instructions", PAD, "question"}
)


async def prepare(
    services: Services, request: ChatCompletionRequest, *, tenant: str, request_id: str
) -> Prepared:
    """Decide, retrieve, render, count.

    Raises:
        InvalidRequestError and below: the request can't be answered as it is.
        PromptError: the template or a value is at fault.
        EngineNotReadyError: there is no engine to render for.
    """
    view = services.replica.view()
    check_fields(request, services.settings.gateway.extra_fields)
    model = public_model(services, view)
    if request.model not in (model, ALIAS):
        raise ModelNotFoundError(request.model, (model, ALIAS))
    instructions, conversation = split_messages(request.messages)
    options = request.foreword or ForewordOptions()
    template = services.templates.find(
        options.template or ("docqa" if options.collection is not None else "chat")
    )
    own = _own_values(template, options, instructions)
    asked = Asked(
        tenant=tenant,
        options=options,
        conversation=conversation,
        template=template.reference,
        writer=TurnWriter(template, own),
        room_tokens=request.completion_limit or 1,
        count=view.tokenizer.count if view.tokenizer else None,
        cached=_cached(services, view, template, own, conversation, tenant),
    )
    tools = request.tools()
    shown_tools = tools if request.shows_tools else ()

    async def made_of(context: Context) -> MadePrompt:
        values = own | _filled_values(template, conversation, context)
        salt = services.salts.of(tenant, context.collection_id)
        return await make_prompt(
            services.conversations, view, request, template, values, tools=shown_tools, salt=salt
        )

    context = await find_context(services, asked)
    made = await made_of(context)
    if context.retrieved is not None and _is_too_long(view, request, made):
        context = await context.retrieved()
        made = await made_of(context)
    prompt, tokenized, salt = made.prompt, made.tokenized, made.salt
    if tokenized is not None:
        _check_length(view, request, context, len(tokenized.token_ids))
        messages = [message_object(message) for message in prompt.messages]
    else:
        prompt = _without_controls(view, prompt, with_excerpts=context.history is not None)
        messages = own_messages(view.tokenizer, request, prompt, len(conversation))
    if context.remember is not None:
        context.remember(None)
    return Prepared(
        request_id=request_id,
        tenant=tenant,
        salt=salt,
        model=model,
        template=template.reference,
        replica=services.replica.name,
        body=_engine_body(services, view, request, tokenized, messages)
        | {"rid": request_id, "cache_salt": salt}
        | ({"tools": [orjson.loads(tool.json) for tool in tools]} if tools else {}),
        labels={"template": template.reference, "tenant": tenant},
        rendered=prompt,
        prompt=tokenized,
        route_reason="only replica",
        collection=context.collection,
        mode=context.mode,
        mode_reason=context.reason,
        sources=context.sources,
        decision=context.decision,
        retrieval=_counted(context.retrieval, tokenized),
        tokenizer=view.tokenizer if tokenized is not None else None,
        transcript=made.transcript,
        remember=context.remember,
    )


def public_model(services: Services, view: ReplicaView) -> str:
    """The name that clients see."""
    return services.settings.engine.model or view.info.served_name.rsplit("/", 1)[-1].lower()


def _own_values(
    template: Template, options: ForewordOptions, instructions: str
) -> dict[str, Value]:
    """The values that neither the messages nor a collection fill."""
    values: dict[str, Value] = {"instructions": instructions} if instructions else {}
    return values | given_values(template, options.variables, taken=values)


def _filled_values(
    template: Template, conversation: tuple[Message, ...], context: Context
) -> dict[str, Value]:
    """The template's variables for the conversation and the collection, as far as declared."""
    values: dict[str, Value] = {}
    declared = template.variables
    if "question" in declared:
        *history, question = conversation
        if question.role != "user":
            raise InvalidRequestError("the last message must be the user's", param="messages")
        values["question"] = question.content
        shown = tuple(history) if context.history is None else context.history
        if shown:
            values["history"] = shown
    else:
        values["conversation"] = conversation
    if context.documents or "documents" in declared:
        values["documents"] = context.documents
    if context.excerpts:
        values[EXCERPTS] = context.excerpts
    if context.pad and PAD in declared:
        values[PAD] = context.pad
    return values


def given_values(
    template: Template, variables: Mapping[str, object], *, taken: Mapping[str, Value]
) -> dict[str, Value]:
    """A client's values for variables that the template declares and the request doesn't fill."""
    values: dict[str, Value] = {}
    for name, value in variables.items():
        param = f"foreword.variables.{name}"
        if name in taken or name in _FILLED_BY_REQUESTS:
            raise InvalidRequestError(f"{name!r} is filled from the request itself", param=param)
        variable = template.variables.get(name)
        if variable is None:
            raise UnknownVariableError(template.reference, name, sorted(template.variables))
        try:
            values[name] = plain_value(variable, value)
        except ValueError as error:
            raise InvalidRequestError(f"{name!r} {error}", param=param) from error
    return values


def _cached(
    services: Services,
    view: ReplicaView,
    template: Template,
    own: Mapping[str, Value],
    conversation: tuple[Message, ...],
    tenant: str,
) -> Callable[[Context], int] | None:
    """How many leading tokens are cached of the prompt that a context makes.

    To be called in a worker thread: the prefix index belongs to the event loop.
    """
    index, tokenizer = services.accounting.index, view.tokenizer
    if index is None or tokenizer is None or not view.parity.ok:
        return None

    def cached(context: Context) -> int:
        values = {**own, **_filled_values(template, conversation, context)}
        try:
            packed = tokenizer.tokenize(render(template, values)).packed
        except ChatTemplateError:
            return 0
        salt = services.salts.of(tenant, context.collection_id)
        return anyio.from_thread.run_sync(_matched, index, packed, salt)

    return cached


def _matched(index: PrefixIndex, packed: bytes, salt: str) -> int:
    """Leading tokens that requests of this salt left anywhere, as far as is known."""
    found = index.match(index.keys(packed), salt=salt, sent_at=time.monotonic())
    return found.racing * index.page_tokens


def _counted(retrieval: Retrieval | None, prompt: TokenizedPrompt | None) -> Retrieval | None:
    """What the search found, with the tokens that it takes in the prompt."""
    if retrieval is None or prompt is None:
        return retrieval
    tokens = sum(part.stop - part.start for part in prompt.ranges if part.segment.id == EXCERPTS)
    return replace(retrieval, found_tokens=tokens)


def _without_controls(view: ReplicaView, prompt: Prompt, *, with_excerpts: bool) -> Prompt:
    """For an engine that tokenizes itself: what documents spell of its control tokens is broken up.

    It would take them for its own; people's messages that spell one are refused instead, unless
    they are earlier ones `with_excerpts`.
    """
    tokenizer = view.tokenizer
    if tokenizer is None:
        return prompt
    broken_up = tokenizer.control.broken_up
    segments: list[RenderedSegment] = []
    for segment in prompt.segments:
        if segment.documents:
            segment = replace(segment, text=broken_up(segment.text))
        elif with_excerpts:
            shown = [
                replace(m, content=broken_up(m.content)) if m.role == "user" else m
                for m in segment.expanded
            ]
            segment = replace(segment, expanded=tuple(shown))
        segments.append(segment)
    return replace(prompt, segments=tuple(segments))


def _is_too_long(view: ReplicaView, request: ChatCompletionRequest, made: MadePrompt) -> bool:
    if made.tokenized is None:
        return False
    needed = len(made.tokenized.token_ids) + (request.completion_limit or 1)
    return needed > view.info.context_tokens


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
    messages: list[dict[str, object]],
) -> dict[str, object]:
    body: dict[str, object] = {
        "model": view.info.served_name,
        "messages": messages,
        "return_cached_tokens_details": True,
        "stream": request.stream,
    }
    if tokenized is not None:
        body["input_ids"] = tokenized.token_ids
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
    allowed = FORWARDED_FIELDS | frozenset(services.settings.gateway.extra_fields)
    body.update({name: value for name, value in request.extras.items() if name in allowed})
    return body
