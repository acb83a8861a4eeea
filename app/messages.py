"""Messages as the engine takes them, for when it renders them itself."""

from collections.abc import Iterator
from typing import Any

from app.errors import InvalidRequestError
from app.schemas import ChatCompletionRequest
from prompts import Message, Prompt, PromptTokenizer, Volatility
from prompts.call_arguments import engine_arguments


def message_object(message: Message) -> dict[str, object]:
    """A message as the engine takes it."""
    made: dict[str, object] = {"role": message.role, "content": message.content}
    if message.name is not None:
        made["name"] = message.name
    if message.reasoning is not None:
        made["reasoning_content"] = message.reasoning
    if message.tool_call_id is not None:
        made["tool_call_id"] = message.tool_call_id
    if message.tool_calls:
        made["tool_calls"] = [
            {
                "id": call.id,
                "type": "function",
                "function": {"name": call.name, "arguments": call.arguments},
            }
            for call in message.tool_calls
        ]
    return made


def own_messages(
    tokenizer: PromptTokenizer | None,
    request: ChatCompletionRequest,
    prompt: Prompt,
    turns: int,
) -> list[dict[str, object]]:
    """Messages for the engine to render; what only it understands goes to it as it came.

    Raises:
        InvalidRequestError: the conversation doesn't end the template, or a text spells a control
            token, which the engine would take for a real one.
    """
    for text, of_model in _texts(prompt):
        token = tokenizer.special_in(text, of_model=of_model) if tokenizer else None
        if token is not None:
            raise InvalidRequestError(
                f"a message spells {token!r}, a control token of this model; take it out",
                param="messages",
            )
    if request.known:
        return [_renderable(message_object(message)) for message in prompt.messages]
    ours, theirs = prompt.messages[:-turns], request.messages[-turns:]
    if [m.content for m in prompt.messages[-turns:]] != [m.text for m in theirs]:
        raise InvalidRequestError(
            f"template {prompt.template} takes text, tool calls and their results only",
            param="foreword.template",
        )
    return [
        *(_renderable(message_object(message)) for message in ours),
        *(_renderable(m.model_dump(exclude_unset=True) | {"role": m.engine_role}) for m in theirs),
    ]


def _renderable(made: dict[str, Any]) -> dict[str, Any]:
    """A message as an engine renders it, which refuses a call whose arguments are no object."""
    for call in made.get("tool_calls") or ():
        function = call["function"]
        if isinstance(function.get("arguments"), str):
            function["arguments"] = engine_arguments(function["arguments"])
    return made


def _texts(prompt: Prompt) -> Iterator[tuple[str, bool]]:
    """All that a client or a document may have written, and whether it passes for the model's."""
    for segment in prompt.segments:
        if segment.volatility is not Volatility.STATIC:
            yield segment.text, False
        for message in segment.expanded:
            of_model = message.role == "assistant"
            yield message.content, of_model
            yield message.reasoning or "", of_model
            for call in message.tool_calls:
                yield from ((call.name, False), (call.arguments, False))
    for tool in prompt.tools:
        yield tool.json, False
