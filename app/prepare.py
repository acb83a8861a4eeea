"""From a client's request to what the engine gets: template, documents, token ids, salt, labels."""

from collections.abc import Mapping
from dataclasses import replace

import orjson
import structlog

from app.context import Context, find_context
from app.errors import (
    ContextLengthError,
    CorpusTooLargeError,
    InvalidRequestError,
    ModelNotFoundError,
)
from app.messages import message_object, own_messages
from app.prepared import Prepared
from app.replica import ReplicaView
from app.schemas import (
    FORWARDED_FIELDS,
    ChatCompletionRequest,
    Mode,
    check_fields,
    split_messages,
)
from app.services import Services
from prompts import (
    Message,
    Prompt,
    PromptDocument,
    Template,
    TokenizedPrompt,
    Tool,
    VariableType,
    Volatility,
    canonical_tools,
    render,
)
from prompts.errors import ChatTemplateError, UnknownVariableError
from prompts.plain_values import plain_value
from prompts.render import Value

ALIAS = "default"
# Variables that the gateway fills from messages and collections.
_FILLED_BY_REQUESTS = frozenset(
    {"conversation", "documents", "history", "instructions", "question"}
)

_log = structlog.get_logger()


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
    options = request.foreword
    context = await find_context(services, request, conversation, tenant=tenant)
    template = services.templates.find(
        (options.template if options else None) or ("docqa" if context.collection else "chat")
    )
    tools = request.tools()
    values = _values(template, request, instructions, conversation, context.documents)
    prompt = _with_tools(template, render(template, values), tools if request.shows_tools else ())
    tokenized = _tokenize(view, request, prompt)
    if tokenized is not None:
        _check_length(view, request, context, len(tokenized.token_ids))
        messages = [message_object(message) for message in prompt.messages]
    else:
        messages = own_messages(view.tokenizer, request, prompt, len(conversation))
    salt = services.salts.of(tenant, context.collection_id)
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
    )


def public_model(services: Services, view: ReplicaView) -> str:
    """The name that clients see."""
    return services.settings.engine.model or view.info.served_name.rsplit("/", 1)[-1].lower()


def _values(
    template: Template,
    request: ChatCompletionRequest,
    instructions: str,
    conversation: tuple[Message, ...],
    documents: tuple[PromptDocument, ...],
) -> Mapping[str, Value]:
    """The template's variables, by what it declares; the client's own go beside ours."""
    values: dict[str, Value] = {}
    declared = template.variables
    if instructions:
        values["instructions"] = instructions
    if "question" in declared:
        *history, question = conversation
        if question.role != "user":
            raise InvalidRequestError("the last message must be the user's", param="messages")
        values["question"] = question.content
        if history:
            values["history"] = tuple(history)
    else:
        values["conversation"] = conversation
    documents_declared = any(v.type is VariableType.DOCUMENTS for v in declared.values())
    if documents or documents_declared:
        values["documents"] = documents
    if request.foreword is not None:
        values |= given_values(template, request.foreword.variables, taken=values)
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


def _with_tools(template: Template, prompt: Prompt, tools: tuple[Tool, ...]) -> Prompt:
    """The prompt with a request's tools, which change as rarely as a client's instructions."""
    if not tools:
        return prompt
    if "conversation" not in template.variables:
        raise InvalidRequestError(
            f"template {template.reference} takes no tools", param="foreword.template"
        )
    both = canonical_tools((*prompt.tools, *tools))
    level = max(prompt.tools_volatility, Volatility.SESSION)
    return replace(prompt, tools=both, tools_volatility=level)


def _tokenize(
    view: ReplicaView, request: ChatCompletionRequest, prompt: Prompt
) -> TokenizedPrompt | None:
    """The prompt's token ids; None where the engine has to render the messages itself."""
    if view.tokenizer is None or not view.parity.ok or not request.known:
        return None
    structured = prompt.tools or any(m.role == "tool" or m.tool_calls for m in prompt.messages)
    if structured and not view.parity.tools:
        return None
    try:
        return view.tokenizer.tokenize(prompt)
    except ChatTemplateError as error:
        # The template refuses such a conversation (two user messages in a row, say), or can't be
        # followed in it. The engine tells the client, or can.
        _log.info("engine_renders", template=prompt.template, reason=error.problem)
        return None


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
        body["return_output_ids_in_sglext"] = services.settings.accounting.enabled
    if request.stream:
        # In every part: of an answer that is given up, its re-use would be unknown otherwise.
        body["stream_options"] = {"include_usage": True, "continuous_usage_stats": True}
    if request.completion_limit is not None:
        body["max_tokens"] = request.completion_limit
    allowed = FORWARDED_FIELDS | frozenset(services.settings.gateway.extra_fields)
    body.update({name: value for name, value in request.extras.items() if name in allowed})
    return body
