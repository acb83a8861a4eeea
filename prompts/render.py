"""From a template and values to a prompt: pure, equal inputs give equal bytes anywhere."""

from collections.abc import Mapping, Sequence

import jinja2

from prompts.canonical import canonical_text
from prompts.errors import MissingVariableError, UnknownVariableError, UnstableValueError
from prompts.segments import Message, Prompt, PromptDocument, RenderedSegment
from prompts.template import Segment, Template, Variable, VariableType

Value = str | int | Sequence[PromptDocument] | Sequence[Message]

_EMPTY: dict[VariableType, Value] = {
    VariableType.TEXT: "",
    VariableType.INTEGER: "",
    VariableType.DOCUMENTS: (),
    VariableType.MESSAGES: (),
}


def render(template: Template, variables: Mapping[str, Value]) -> Prompt:
    """The prompt that a template makes of these values.

    Neighbouring text segments of one role form one message; an expanded conversation keeps its own
    messages, empty ones too. Text segments that render to nothing are left out.

    Raises:
        MissingVariableError: a variable that isn't optional has no value.
        UnknownVariableError: a value has no variable.
        UnstableValueError: a value isn't of its declared type or has no canonical form.
    """
    values = _values(template, variables)
    rendered: list[RenderedSegment] = []
    message, open_role = -1, None
    for segment in template.segments:
        for role, text, own_message in _texts(template, segment, values):
            if not text and not own_message:
                continue
            if own_message or role != open_role:
                message += 1
            open_role = None if own_message else role
            rendered.append(
                RenderedSegment(
                    id=segment.id,
                    role=role,
                    volatility=segment.volatility,
                    text=text,
                    message=message,
                )
            )
    return Prompt(template=template.reference, segments=tuple(rendered))


def _texts(
    template: Template, segment: Segment, values: Mapping[str, Value]
) -> list[tuple[str, str, bool]]:
    """(role, text, is a message of its own) for each piece of a segment."""
    if segment.messages is not None:
        conversation = values[segment.messages]
        assert not isinstance(conversation, str | int)
        return [(m.role, m.content, True) for m in conversation if isinstance(m, Message)]
    assert segment.code is not None
    assert segment.role is not None
    try:
        return [(segment.role, segment.code.render(values), False)]
    except (jinja2.TemplateError, TypeError, ValueError) as error:
        raise UnstableValueError(
            template.reference, segment.id, f"can't be rendered: {error}"
        ) from (error)


def _values(template: Template, variables: Mapping[str, Value]) -> dict[str, Value]:
    for name in variables:
        if name not in template.variables:
            raise UnknownVariableError(template.reference, name, sorted(template.variables))
    values: dict[str, Value] = {}
    for name, variable in template.variables.items():
        if name in variables:
            values[name] = _canonical(template, variable, variables[name])
        elif variable.optional:
            values[name] = _EMPTY[variable.type]
        else:
            raise MissingVariableError(template.reference, name)
    return values


def _canonical(template: Template, variable: Variable, value: Value) -> Value:
    """The value in its canonical form."""
    try:
        match variable.type, value:
            case VariableType.TEXT, str():
                return canonical_text(value)
            case VariableType.INTEGER, int() if not isinstance(value, bool):
                return value
            case VariableType.DOCUMENTS, [*items]:
                return tuple(_document(item) for item in items)
            case VariableType.MESSAGES, [*items]:
                return tuple(_message(item) for item in items)
    except ValueError as error:
        raise UnstableValueError(template.reference, variable.name, str(error)) from error
    problem = f"must be {variable.type.value}, not {type(value).__name__}"
    raise UnstableValueError(template.reference, variable.name, problem)


def _document(item: PromptDocument | Message) -> PromptDocument:
    if not isinstance(item, PromptDocument):
        raise ValueError("must hold documents only")
    return PromptDocument(name=canonical_text(item.name), text=canonical_text(item.text))


def _message(item: PromptDocument | Message) -> Message:
    if not isinstance(item, Message):
        raise ValueError("must hold messages only")
    return Message(role=item.role, content=canonical_text(item.content))
