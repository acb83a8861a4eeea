"""A user's message as a template writes it around what was found for it."""

from collections.abc import Mapping, Sequence

from prompts import PromptDocument, Template, VariableType, render
from prompts.render import Value
from retrieval import Excerpt

EXCERPTS = "excerpts"
"""The variable of a template that takes what was found for the last message."""

PAD = "pad"
"""The one that takes the filler behind a whole collection's documents."""


class TurnWriter:
    """Writes user messages by one template.

    `values` are the request's own for the template's variables, without documents and messages.
    """

    def __init__(self, template: Template, values: Mapping[str, Value]) -> None:
        self._template = template
        self._values = values
        self.shows_excerpts = _is_documents(template, EXCERPTS)

    def content(self, excerpts: Sequence[Excerpt], question: str) -> str:
        """The message; the bare question where the template has no place for excerpts.

        Raises:
            PromptError: a value is at fault.
        """
        if not self.shows_excerpts:
            return question
        values = {**self._values, EXCERPTS: shown(excerpts), "question": question}
        if _is_documents(self._template, "documents"):
            values["documents"] = ()
        return render(self._template, values).messages[-1].content


def shown(excerpts: Sequence[Excerpt]) -> tuple[PromptDocument, ...]:
    """Excerpts as a prompt shows them."""
    return tuple(PromptDocument(name=e.name, text=e.text) for e in excerpts)


def _is_documents(template: Template, name: str) -> bool:
    variable = template.variables.get(name)
    return variable is not None and variable.type is VariableType.DOCUMENTS
