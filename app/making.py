"""The prompt of a request: rendered, encoded, and gone on with where an earlier answer's ids are
known. What takes longer than a few milliseconds is done beside the event loop."""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial

import structlog

from app.aside import Aside
from app.conversations import Answered, Conversations
from app.errors import ContextLengthError, InvalidRequestError
from app.replica_view import ReplicaView
from app.schemas import ChatCompletionRequest
from app.stored.records import Resumption
from prompts import (
    InherentBreak,
    Message,
    Prompt,
    PromptDocument,
    PromptTokenizer,
    Template,
    TokenizedPrompt,
    Tool,
    Transcript,
    Volatility,
    canonical_tools,
    render,
    with_held_ids,
)
from prompts.errors import ChatTemplateError, TooManyTokensError
from prompts.records import record
from prompts.render import Value

# What a message or a tool counts for beside its text.
_ENTRY_CHARACTERS = 64

_log = structlog.get_logger()


@record
class MadePrompt:
    """A prompt for one salt.

    `tokenized` is None where the engine has to render the messages itself; `transcript` is there
    where an earlier answer's own ids are in it. `inherent` says where the chat template itself ends
    re-use.
    """

    prompt: Prompt
    salt: str
    tokenized: TokenizedPrompt | None = None
    transcript: Transcript | None = None
    inherent: InherentBreak | None = None


async def make_prompt(
    aside: Aside,
    conversations: Conversations,
    view: ReplicaView,
    request: ChatCompletionRequest,
    template: Template,
    values: Mapping[str, Value],
    *,
    tools: tuple[Tool, ...],
    salt: str,
    resumption: Resumption | None = None,
) -> MadePrompt:
    """Render and encode; the ids of earlier answers are as the model gave them.

    Raises:
        InvalidRequestError: the template takes no tools.
        ContextLengthError: the prompt is longer than the model's window by far.
        PromptError: the template or a value is at fault.
    """
    characters = _characters([*values.values(), *tools])
    work = partial(_rendered, view, request, template, values, tools)
    try:
        prompt, tokenized = await aside.done(work, characters=characters)
    except TooManyTokensError as error:
        raise too_long(view, request) from error
    if tokenized is None:
        return MadePrompt(prompt=prompt, salt=salt)
    return await gone_on(
        aside,
        conversations,
        view,
        tokenized,
        salt=salt,
        characters=characters,
        resumption=resumption,
    )


def too_long(view: ReplicaView, request: ChatCompletionRequest) -> ContextLengthError:
    """For a prompt that wasn't counted to its end."""
    return ContextLengthError(None, request.completion_limit or 1, view.info.context_tokens)


async def gone_on(
    aside: Aside,
    conversations: Conversations,
    view: ReplicaView,
    tokenized: TokenizedPrompt,
    *,
    salt: str,
    characters: int,
    resumption: Resumption | None = None,
) -> MadePrompt:
    """A prompt with the ids of earlier answers as the model gave them, where they are known: from
    memory, or else as a stored conversation has them."""
    prompt = tokenized.prompt
    assert view.tokenizer is not None
    said = conversations.said(salt, prompt, view.tokenizer, tokenized.stem)
    if said is None and resumption is not None:
        said = resumption.answered(prompt, view.tokenizer)
    if said is None or said.is_begun_by(tokenized):
        return MadePrompt(prompt=prompt, salt=salt, tokenized=tokenized)
    follow = partial(_continued, view.tokenizer, tokenized, said)
    tokenized, transcript, inherent = await aside.done(follow, characters=characters)
    return MadePrompt(
        prompt=prompt, salt=salt, tokenized=tokenized, transcript=transcript, inherent=inherent
    )


def _characters(value: object) -> int:
    """Of all texts in a template's values, and what is written around them."""
    match value:
        case str():
            return len(value)
        case PromptDocument():
            return len(value.text)
        case Message():
            calls = sum(len(call.arguments) for call in value.tool_calls)
            return _ENTRY_CHARACTERS + len(value.content) + len(value.reasoning or "") + calls
        case Tool():
            return _ENTRY_CHARACTERS + len(value.json)
        case list() | tuple():
            return sum(map(_characters, value))
        case dict():
            return sum(map(_characters, value.values()))
    return 0


def _rendered(
    view: ReplicaView,
    request: ChatCompletionRequest,
    template: Template,
    values: Mapping[str, Value],
    tools: tuple[Tool, ...],
) -> tuple[Prompt, TokenizedPrompt | None]:
    """The prompt and its token ids; these are None where the engine has to render the messages."""
    prompt = _with_tools(template, render(template, values), tools)
    if view.tokenizer is None or not view.parity.ok or not request.known:
        return prompt, None
    structured = prompt.tools or any(m.role == "tool" or m.tool_calls for m in prompt.messages)
    if structured and not view.parity.tools:
        return prompt, None
    try:
        return prompt, view.tokenizer.tokenize(prompt, limit=view.info.context_tokens)
    except ChatTemplateError as error:
        # The template refuses such a conversation (two user messages in a row, say), or can't be
        # followed in it. The engine tells the client, or can.
        _log.info("engine_renders", template=prompt.template, reason=error.problem)
        return prompt, None


def _continued(
    tokenizer: PromptTokenizer, tokenized: TokenizedPrompt, said: Answered
) -> tuple[TokenizedPrompt, Transcript | None, InherentBreak | None]:
    """The prompt with an earlier answer's ids as the model gave them, where they fit in."""
    transcript = said.follow(tokenizer, tokenized.prompt.messages)
    inherent = transcript.inherent if transcript is not None else None
    held = with_held_ids(tokenized, transcript.token_ids) if transcript else None
    if held is None or held is tokenized:  # with_held_ids gives back what it got if nothing differs
        return tokenized, None, inherent
    return held, transcript, inherent


def _with_tools(template: Template, prompt: Prompt, tools: tuple[Tool, ...]) -> Prompt:
    """The prompt with a request's tools, which change as rarely as a client's instructions."""
    if not tools:
        return prompt
    if "conversation" not in template.variables:
        raise InvalidRequestError(
            f"template {template.reference} takes no tools: leave them out, or the collection, "
            "and give a tool that asks POST /v1/vector_stores/{id}/search",
            param="tools",
        )
    both = canonical_tools((*prompt.tools, *tools))
    level = max(prompt.tools_volatility, Volatility.SESSION)
    return replace(prompt, tools=both, tools_volatility=level)
