"""Values for a template's variables: checked against their types, in canonical form.

A value that is canonical already is passed on as it is, so that what hasn't changed costs nothing.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import date, datetime
from decimal import Decimal
from typing import TypeAlias, TypeVar, cast

from prompts.canonical import JSON, canonical_text, canonical_value, check_text, is_canonical
from prompts.delimiting import delimited
from prompts.errors import MissingVariableError, UnknownVariableError, UnstableValueError
from prompts.formats import DateFormat, NumberFormat, date_text, number_text
from prompts.segments import Message, PromptDocument, Tool, ToolCall
from prompts.template import Template, Variable, VariableType
from prompts.tools import canonical_tools

Value: TypeAlias = (
    str | int | float | Decimal | date | Sequence[object] | Mapping[str, object] | None
)
"""What callers give: text, numbers, dates, documents, messages, tools, JSON."""

Canonical: TypeAlias = (
    "str | int | tuple[PromptDocument, ...] | tuple[Message, ...] | tuple[Tool, ...] | JSON"
)
"""What templates get. Numbers and dates are text in their declared format."""

T = TypeVar("T", Message, PromptDocument)

# Their texts are what the engine already holds, or what a tool said: byte for byte as first seen.
_VERBATIM_ROLES = frozenset({"assistant", "tool", "function"})
_EMPTY: Mapping[VariableType, Canonical] = {
    VariableType.DOCUMENTS: (),
    VariableType.MESSAGES: (),
    VariableType.TOOLS: (),
    VariableType.JSON: None,
}


def canonical_values(template: Template, given: Mapping[str, Value]) -> dict[str, Canonical]:
    """A value for each variable of a template.

    Raises:
        MissingVariableError: a variable that isn't optional has no value.
        UnknownVariableError: a value has no variable.
        UnstableValueError: a value isn't of its declared type or has no canonical form.
    """
    declared = template.variables
    for name in given:
        if name not in declared:
            raise UnknownVariableError(template.reference, name, sorted(declared))
    values: dict[str, Canonical] = {}
    for name, variable in declared.items():
        if name in given:
            values[name] = _canonical_of(template, variable, given[name])
        elif variable.optional:
            values[name] = _EMPTY.get(variable.type, "")
        else:
            raise MissingVariableError(template.reference, name)
    return values


def _canonical_of(template: Template, variable: Variable, value: Value) -> Canonical:
    try:
        return _CANONICAL[variable.type](value, variable)
    except ValueError as error:
        raise UnstableValueError(template.reference, variable.name, str(error)) from error


def _text(value: Value, variable: Variable) -> str:
    if not isinstance(value, str):
        raise _wrong_type(value, variable)
    return _changed_text(variable)(value)


def _integer(value: Value, variable: Variable) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise _wrong_type(value, variable)
    return int(value)


def _number(value: Value, variable: Variable) -> str:
    if not isinstance(value, int | float | Decimal) or isinstance(value, bool):
        raise _wrong_type(value, variable)
    assert isinstance(variable.format, NumberFormat)
    return number_text(value, variable.format)


def _date(value: Value, variable: Variable) -> str:
    if isinstance(value, datetime):
        raise ValueError("must be a day, not a moment: give value.date()")
    if isinstance(value, str):
        try:
            value = date.fromisoformat(value)
        except ValueError as error:
            raise ValueError(f"must be a date like 2026-11-30, not {value!r}") from error
    if not isinstance(value, date):
        raise _wrong_type(value, variable)
    assert isinstance(variable.format, DateFormat)
    return date_text(value, variable.format)


def _json(value: Value, variable: Variable) -> JSON:
    return canonical_value(value)


def _tools(value: Value, variable: Variable) -> tuple[Tool, ...]:
    return canonical_tools(_items(value, variable))


def _documents(value: Value, variable: Variable) -> tuple[PromptDocument, ...]:
    documents = _all_of(PromptDocument, _items(value, variable), "documents")
    if not (_plain([d.name for d in documents]) and _plain([d.text for d in documents])):
        change = _changed_text(variable)
        documents = tuple(
            [PromptDocument(name=change(d.name), text=change(d.text)) for d in documents]
        )
    # What needs no escape comes back as it is: places are found by the very objects.
    return tuple([delimited(document) for document in documents])


def _messages(value: Value, variable: Variable) -> tuple[Message, ...]:
    messages = _all_of(Message, _items(value, variable), "messages")
    if not _plain([m.content for m in messages]):
        change = _changed_text(variable)
        messages = tuple([_message(message, change) for message in messages])
    for message in messages:
        if message.tool_calls or message.reasoning:
            _check_verbatim(message)
    return messages


def _message(message: Message, change: Callable[[str], str]) -> Message:
    keeps = message.role in _VERBATIM_ROLES
    content = (check_text if keeps else change)(message.content)
    # Most messages are canonical: no copy of those.
    return message if content == message.content else replace(message, content=content)


def _check_verbatim(message: Message) -> None:
    check_text(message.reasoning or "")
    for call in message.tool_calls:
        if not isinstance(call, ToolCall):
            raise ValueError(f"must hold tool calls only, not a {type(call).__name__}")
        check_text(call.id + call.name + call.arguments)


def _changed_text(variable: Variable) -> Callable[[str], str]:
    return canonical_text if variable.normalize else check_text


def _plain(texts: list[str]) -> bool:
    """Whether all texts are canonical, seen from one look at the whole."""
    try:
        return is_canonical("".join(texts))
    except TypeError as error:
        raise ValueError("must hold text only where text is due") from error


def _items(value: Value, variable: Variable) -> Sequence[object]:
    if not isinstance(value, tuple | list | Sequence) or isinstance(value, str | bytes):
        raise _wrong_type(value, variable)
    return value


def _all_of(kind: type[T], items: Sequence[object], words: str) -> tuple[T, ...]:
    if not set(map(type, items)) <= {kind}:
        raise ValueError(f"must hold {words} only")
    return tuple(cast("Sequence[T]", items))


def _wrong_type(value: Value, variable: Variable) -> ValueError:
    return ValueError(f"must be {variable.type.value}, not {type(value).__name__}")


_CANONICAL: Mapping[VariableType, Callable[[Value, Variable], Canonical]] = {
    VariableType.TEXT: _text,
    VariableType.INTEGER: _integer,
    VariableType.NUMBER: _number,
    VariableType.DATE: _date,
    VariableType.DOCUMENTS: _documents,
    VariableType.MESSAGES: _messages,
    VariableType.TOOLS: _tools,
    VariableType.JSON: _json,
}
