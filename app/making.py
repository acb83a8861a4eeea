"""The prompt of a request: rendered, encoded, and gone on with where an earlier answer's ids are
known. What takes longer than a few milliseconds is done beside the event loop."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import TypeVar

import anyio
import structlog

from app.conversations import Answered, Conversations
from app.errors import InvalidRequestError
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
from prompts.errors import ChatTemplateError
from prompts.records import record
from prompts.render import Value

# From here on, rendering and encoding take long enough for other requests to notice.
LONG_CHARACTERS = 16_384

Made = TypeVar("Made")

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
        PromptError: the template or a value is at fault.
    """
    is_long = _characters(dict(values)) >= LONG_CHARACTERS
    work = partial(_rendered, view, request, template, values, tools)
    prompt, tokenized = await aside(work, is_long=is_long)
    if tokenized is None:
        return MadePrompt(prompt=prompt, salt=salt)
    return await gone_on(
        conversations, view, tokenized, salt=salt, is_long=is_long, resumption=resumption
    )


async def gone_on(
    conversations: Conversations,
    view: ReplicaView,
    tokenized: TokenizedPrompt,
    *,
    salt: str,
    is_long: bool,
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
    tokenized, transcript, inherent = await aside(follow, is_long=is_long)
    return MadePrompt(
        prompt=prompt, salt=salt, tokenized=tokenized, transcript=transcript, inherent=inherent
    )


async def aside(work: Callable[[], Made], *, is_long: bool) -> Made:
    """What the work gives; a long one is done in a worker thread."""
    return await anyio.to_thread.run_sync(work) if is_long else work()


def _characters(value: object) -> int:
    """Of all texts in a template's values."""
    match value:
        case str():
            return len(value)
        case PromptDocument():
            return len(value.text)
        case Message():
            return len(value.content)
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
        return prompt, view.tokenizer.tokenize(prompt)
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
            f"template {template.reference} takes no tools", param="foreword.template"
        )
    both = canonical_tools((*prompt.tools, *tools))
    level = max(prompt.tools_volatility, Volatility.SESSION)
    return replace(prompt, tools=both, tools_volatility=level)
