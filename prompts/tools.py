"""Tools in one fixed order and spelling, whoever lists them and however.

Tools are sorted by name. In their JSON Schemas keys are sorted, and so are the lists that JSON
Schema reads as sets (`required`, several `type`s); lists with an order (`enum`, `anyOf`) keep it.
"""

import operator
from collections.abc import Callable, Iterable
from itertools import pairwise
from typing import Any

from prompts.canonical import JSON, canonical_value, spell_json
from prompts.segments import Tool

_SCHEMAS_BY_NAME = (
    "$defs", "definitions", "dependentSchemas", "patternProperties", "properties",
)  # fmt: skip
_SCHEMAS = (
    "additionalItems", "additionalProperties", "allOf", "anyOf", "contains", "contentSchema",
    "else", "if", "items", "not", "oneOf", "prefixItems", "propertyNames", "then",
    "unevaluatedItems", "unevaluatedProperties",
)  # fmt: skip
_SETS = ("required", "type")


def canonical_tools(tools: Iterable[object]) -> tuple[Tool, ...]:
    """The tools by name, each in its canonical spelling, from OpenAI's objects or `Tool`s.

    Raises:
        ValueError: a tool has no name or no canonical form, or two have one name.
    """
    made: tuple[Any, ...] = tuple(tools)
    if not set(map(type, made)) <= {Tool}:
        made = tuple([canonical_tool(tool) for tool in made])
    names = [tool.name for tool in made]
    if all(map(operator.lt, names, names[1:])):
        return made
    made = tuple(sorted(made, key=operator.attrgetter("name")))
    for tool, following in pairwise(made):
        if tool.name == following.name:
            raise ValueError(f"has two tools called {tool.name!r}; keep one of them")
    return made


def canonical_tool(tool: object) -> Tool:
    """One tool from OpenAI's object: `{"type": "function", "function": {"name": …}}`.

    Raises:
        ValueError: it isn't one, has no name or no canonical form.
    """
    if isinstance(tool, Tool):
        return tool
    value = canonical_value(tool)
    function = value.get("function") if isinstance(value, dict) else None
    name = function.get("name") if isinstance(function, dict) else None
    if not isinstance(name, str) or not name:
        raise ValueError("must hold tools as OpenAI's objects, with a function that has a name")
    assert isinstance(value, dict)
    assert isinstance(function, dict)
    if "parameters" in function:
        function["parameters"] = _schema(function["parameters"])
    return Tool(name=name, json=spell_json(value))


def _schema(schema: JSON) -> JSON:
    """A JSON Schema with its sets sorted; what is data in it (`default`, `enum`) stays."""
    if isinstance(schema, list):
        return [_schema(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    return {key: _keyword(key, value) for key, value in schema.items()}


def _keyword(key: str, value: JSON) -> JSON:
    if key in _SETS:
        return _sorted_set(value)
    if key in _SCHEMAS:
        return _schema(value)
    if key in _SCHEMAS_BY_NAME:
        return _each(value, _schema)
    if key == "dependentRequired":
        return _each(value, _sorted_set)
    return value


def _each(value: JSON, change: Callable[[JSON], JSON]) -> JSON:
    return (
        {name: change(item) for name, item in value.items()} if isinstance(value, dict) else value
    )


def _sorted_set(value: JSON) -> JSON:
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return list[JSON](sorted({item for item in value if isinstance(item, str)}))
    return value
