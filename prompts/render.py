"""From a template and values to a prompt: pure, equal inputs give equal bytes anywhere."""

from collections.abc import Mapping
from typing import Any, cast

from prompts.document_places import document_places, searched_places
from prompts.environment import RENDER_ERRORS, TEMPLATE_GLOBALS
from prompts.errors import UnstableValueError
from prompts.segments import (
    DocumentPlace,
    Message,
    Prompt,
    PromptDocument,
    RenderedSegment,
    Tool,
    Volatility,
)
from prompts.template import Segment, Template, VariableType
from prompts.values import Value, canonical_values

__all__ = ["Value", "render"]

# Of one segment: in all no more than half a megabyte of text.
_LONGEST_KEPT = 16_384
_MOST_KEPT = 32


def render(template: Template, variables: Mapping[str, Value]) -> Prompt:
    """The prompt that a template makes of these values.

    Neighbouring text segments of one role form one message; an expanded conversation keeps its own
    messages, empty ones too. Text segments that render to nothing are left out.

    Raises:
        MissingVariableError: a variable that isn't optional has no value.
        UnknownVariableError: a value has no variable.
        UnstableValueError: a value isn't of its declared type or has no canonical form.
    """
    values = {**TEMPLATE_GLOBALS, **canonical_values(template, variables)}
    rendered: list[RenderedSegment] = []
    # Messages so far, and the role of the last one while more text may join it.
    count, open_role = 0, None
    for segment in template.segments:
        if segment.messages is not None:
            conversation = cast("tuple[Message, ...]", values[segment.messages])
            if conversation:
                rendered.append(_expanded(segment, conversation, count))
                count, open_role = count + len(conversation), None
            continue
        text, documents = _text(template, segment, values)
        if not text:
            continue
        if segment.role != open_role:
            count, open_role = count + 1, segment.role
        rendered.append(_filled(segment, text, count - 1, documents))
    tools = cast("tuple[Tool, ...]", values[template.tools]) if template.tools else ()
    level = template.variables[template.tools].volatility if template.tools else Volatility.STATIC
    return Prompt(
        template=template.reference,
        segments=tuple(rendered),
        tools=tools,
        tools_volatility=level,
    )


def _text(
    template: Template, segment: Segment, values: dict[str, Any]
) -> tuple[str, tuple[DocumentPlace, ...]]:
    """The segment's text, and where documents lie in it."""
    if segment.constant is not None:
        return segment.constant, ()
    code = segment.code
    assert code is not None, "a template to be rendered is parsed with checks"
    given = _texts(segment, values)
    if given is not None and (known := segment.printed.get(given)) is not None:
        return known, ()
    try:
        # As code.render(), less its copies of the values.
        printed = code.root_render_func(code.new_context(values, shared=True))
        documents = _documents(template, segment, values)
        if not documents:
            text = "".join(printed)
            if given is not None:
                _keep(segment, given, text)
            return text, ()
        chunks = list(printed)
    except RENDER_ERRORS as error:
        problem = f"can't be rendered: {error}"
        raise UnstableValueError(template.reference, segment.id, problem) from error
    text = "".join(chunks)
    places = document_places(chunks, documents)
    if len(places) < len(documents):
        places = max(places, searched_places(text, documents), key=len)
    return text, places


def _texts(segment: Segment, values: dict[str, Any]) -> tuple[str, ...] | None:
    """The values that a segment uses where all are texts, which alone decide what it prints."""
    given = tuple([values[name] for name in segment.uses])
    return given if {*map(type, given)} == {str} else None


def _keep(segment: Segment, given: tuple[str, ...], text: str) -> None:
    if len(text) <= _LONGEST_KEPT:
        if len(segment.printed) >= _MOST_KEPT:
            segment.printed.clear()
        segment.printed[given] = text


def _documents(
    template: Template, segment: Segment, values: dict[str, Any]
) -> tuple[PromptDocument, ...]:
    """All documents of the variables that a segment uses."""
    variables = template.variables
    used = [n for n in segment.uses if variables[n].type is VariableType.DOCUMENTS]
    return tuple([document for name in used for document in values[name]])


def _filled(
    segment: Segment, text: str, message: int, documents: tuple[DocumentPlace, ...]
) -> RenderedSegment:
    return RenderedSegment(
        id=segment.id,
        role=segment.role or "",
        volatility=segment.volatility,
        text=text,
        message=message,
        documents=documents,
    )


def _expanded(segment: Segment, conversation: tuple[Message, ...], message: int) -> RenderedSegment:
    return RenderedSegment(
        id=segment.id,
        role="",
        volatility=segment.volatility,
        text="",
        message=message,
        expanded=conversation,
    )
