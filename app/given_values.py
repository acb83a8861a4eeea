"""A template's values for a request: from its messages, its variables and its collection."""

from collections.abc import Mapping

from app.context import Context
from app.errors import InvalidRequestError
from app.schemas import ForewordOptions
from app.turn_text import EXCERPTS, PAD
from prompts import Message, Template
from prompts.errors import UnknownVariableError
from prompts.plain_values import plain_value
from prompts.render import Value

# Variables that the gateway fills from messages and collections.
_FILLED_BY_REQUESTS = frozenset(
    {"conversation", "documents", EXCERPTS, "history", "instructions", PAD, "question"}
)


def own_values(template: Template, options: ForewordOptions, instructions: str) -> dict[str, Value]:
    """The values that neither the messages nor a collection fill."""
    values: dict[str, Value] = {"instructions": instructions} if instructions else {}
    return values | given_values(template, options.variables, taken=values)


def filled_values(
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
