"""Whether a template can serve an agent: what each of its runs would be refused for.

What values a template takes is `canonical_values`'s to say, as it is in a run.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from prompts.agent import Agent
from prompts.errors import MissingVariableError, UnknownVariableError, VariableError
from prompts.plain_values import plain_value
from prompts.segments import Message
from prompts.template import Template
from prompts.values import Value, canonical_values

FILLED_BY_RUNS = frozenset({
    "conversation", "documents", "excerpts", "history", "instructions", "pad", "question",
})  # fmt: skip
"""Variables of a template for which a file can't give a value: they are a run's own."""

_QUESTION = Message(role="user", content="?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Unfit:
    """Why it can't; `field` is what of the agent's file says so, as `Agent.place` takes it."""

    field: str
    problem: str


def unfit(agent: Agent, template: Template) -> Iterator[Unfit]:
    """What is wrong for every run of an agent, whatever it is asked."""
    declared = template.variables
    takes_calls = "conversation" in declared and "question" not in declared
    if agent.tools and not takes_calls:
        problem = (
            f"template {template.reference} takes no tools: name one that has the variable "
            "`conversation`, and no `question`"
        )
        yield Unfit(field="template", problem=problem)
        return
    values = _filled(agent, template)
    for name, text in agent.variables.items():
        field = f"variables.{name}"
        variable = declared.get(name)
        if name in FILLED_BY_RUNS:
            yield Unfit(field=field, problem=f"{name!r} is filled from the request itself")
        elif variable is None:
            unknown = UnknownVariableError(template.reference, name, sorted(declared))
            yield Unfit(field=field, problem=str(unknown))
        else:
            try:
                values[name] = plain_value(variable, text)
            except ValueError as error:
                yield Unfit(field=field, problem=f"{name!r} {error}")
                return
    try:
        canonical_values(template, values)
    except VariableError as error:
        yield _refused(agent, error)


def _filled(agent: Agent, template: Template) -> dict[str, Value]:
    """The variables that a run fills, as far as it does so always."""
    declared = template.variables
    values: dict[str, Value] = {}
    instructions = agent.instructions.strip()
    asked = declared.get("instructions")
    if instructions or (asked is not None and not asked.optional):  # a request may give some
        values["instructions"] = instructions
    if "question" in declared:
        values["question"] = _QUESTION.content
        if "history" in declared:
            values["history"] = (_QUESTION,)
    else:
        values["conversation"] = (_QUESTION,)
    if "documents" in declared:
        values["documents"] = ()
    return values


def _refused(agent: Agent, error: VariableError) -> Unfit:
    name, problem = error.variable, str(error)
    if isinstance(error, MissingVariableError) and name not in FILLED_BY_RUNS:
        problem += ": give it under `variables`"
    if name in agent.variables:
        return Unfit(field=f"variables.{name}", problem=problem)
    return Unfit(field="instructions" if name == "instructions" else "template", problem=problem)
