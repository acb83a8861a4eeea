"""Values as JSON or YAML has them, made into those that `render` takes.

Documents and messages come as objects; a conversation's messages have OpenAI's shape. The rest is
taken as it is: `render` checks it.
"""

import json
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from prompts.segments import Message, PromptDocument, ToolCall
from prompts.template import Variable, VariableType
from prompts.values import Value

T = TypeVar("T")


def plain_value(variable: Variable, value: object) -> Value:
    """The value for a variable.

    Raises:
        ValueError: what says how it should look.
    """
    match variable.type:
        case VariableType.DOCUMENTS:
            return _each(value, _document, 'a list of {"name": …, "text": …}')
        case VariableType.MESSAGES:
            return _each(value, plain_message, 'a list of {"role": …, "content": …}')
        case _:
            taken: Any = value
            return taken  # type: ignore[no-any-return]


def plain_message(value: object) -> Message:
    """A message from OpenAI's object; several text parts become one text.

    Raises:
        ValueError: a role or a text is missing, or a field isn't of its type.
    """
    if not isinstance(value, Mapping):
        raise ValueError("a message is an object with role and content")
    return Message(
        role=_text(value, "role"),
        content=_content(value.get("content")),
        tool_calls=tuple(_each(value.get("tool_calls") or [], _tool_call, "a list of tool calls")),
        tool_call_id=_optional_text(value, "tool_call_id"),
        name=_optional_text(value, "name"),
        reasoning=_optional_text(value, "reasoning_content"),
    )


def _each(value: object, make: Callable[[object], T], form: str) -> list[T]:
    if not isinstance(value, list | tuple):
        raise ValueError(f"must be {form}")
    return [make(item) for item in value]


def _document(value: object) -> PromptDocument:
    return PromptDocument(name=_text(value, "name"), text=_text(value, "text"))


def _content(value: object) -> str:
    match value:
        case None:
            return ""
        case str():
            return value
        case [*parts]:
            return "".join(_text(part, "text") for part in parts)
    raise ValueError("a message's content is text, or a list of text parts")


def _tool_call(value: object) -> ToolCall:
    match value:
        case {"id": str() as call_id, "function": {"name": str() as name} as function}:
            arguments = function.get("arguments", "{}")
            text = arguments if isinstance(arguments, str) else json.dumps(arguments)
            return ToolCall(id=call_id, name=name, arguments=text)
    raise ValueError("a tool call is an object with id and function, which has name and arguments")


def _text(value: object, name: str) -> str:
    found = value.get(name) if isinstance(value, Mapping) else None
    if not isinstance(found, str):
        raise ValueError(f"{name!r} must be text, not {type(found).__name__}")
    return found


def _optional_text(value: Mapping[str, Any], name: str) -> str | None:
    return None if value.get(name) is None else _text(value, name)
