"""The JSON Schema of agent files, so that editors complete and check them.

`python -m prompts.agent_schema` writes it; `prompts/agent.schema.json` is its output. Whether a
template or another agent is there is the linter's and the gateway's to check.
"""

import json
import sys

from prompts.agent import BUILT_IN, LIMITS
from prompts.template_file import IDENTIFIER, NAME, VERSION_DIGITS

Schema = dict[str, object]


def agent_schema() -> Schema:
    """The schema, in the draft that editors know best."""
    return _object(
        "A Foreword agent.",
        required=("name", "version"),
        properties={
            "name": _pattern("What requests ask for.", NAME.pattern),
            "version": {
                "description": "Counts up with each change.",
                "type": "integer",
                "minimum": 1,
                "maximum": 10**VERSION_DIGITS - 1,
            },
            "description": _text("What it does; an agent that has it as a tool is told so."),
            "template": _text("The prompt's template, `name` or `name@version`."),
            "variables": {
                "description": "Values for the template's variables.",
                "type": "object",
                "propertyNames": {"pattern": f"^(?:{IDENTIFIER.pattern})$"},
                "additionalProperties": {"type": "string"},
            },
            "instructions": _text("What the model is told before the conversation."),
            "tools": {
                "description": "What the model may call.",
                "type": "array",
                "items": {"$ref": "#/definitions/tool"},
            },
            "limits": _object(
                "Most that a run may use, its sub-agents included.",
                properties={name: _count(name) for name in LIMITS} | {"step": _step()},
            ),
            "temperature": {"type": "number", "minimum": 0, "maximum": 2},
            "parallel_tool_calls": {"type": "boolean"},
        },
    ) | {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "definitions": {"tool": {"oneOf": [_name(), _search(), _read(), _mcp(), _agent()]}},
    }


def schema_text() -> str:
    """The schema as the file holds it."""
    return json.dumps(agent_schema(), indent=2, ensure_ascii=False) + "\n"


def _name() -> Schema:
    return {"description": "A tool of the gateway's.", "type": "string", "enum": list(BUILT_IN)}


def _search() -> Schema:
    passages: Schema = {"type": "integer", "minimum": 1, "maximum": 50}
    options = _object("How it looks.", properties={"collections": _names(), "passages": passages})
    return _object("Searches collections.", required=("search",), properties={"search": options})


def _read() -> Schema:
    options = _object("What it may read.", properties={"collections": _names()})
    return _object(
        "Reads documents.", required=("read_document",), properties={"read_document": options}
    )


def _mcp() -> Schema:
    return _object(
        "Tools of an MCP server.",
        required=("mcp",),
        properties={
            "mcp": {"type": "string"},
            "only": _names(),
            "idempotent": _names(),
            "trust_hints": {"type": "boolean"},
        },
    )


def _agent() -> Schema:
    name = _pattern("Its name.", NAME.pattern)
    return _object("Another agent.", required=("agent",), properties={"agent": name})


def _step() -> Schema:
    names = [name for name in LIMITS if name != "steps"]
    return _object("The same of one step.", properties={name: _count(name) for name in names})


def _count(name: str) -> Schema:
    return {"type": "integer", "minimum": 1, "maximum": LIMITS[name]}


def _names() -> Schema:
    items: Schema = {"type": "string"}
    return {"type": "array", "minItems": 1, "uniqueItems": True, "items": items}


def _text(description: str) -> Schema:
    return {"description": description, "type": "string"}


def _pattern(description: str, pattern: str) -> Schema:
    return {"description": description, "type": "string", "pattern": f"^(?:{pattern})$"}


def _object(
    description: str, *, properties: dict[str, Schema], required: tuple[str, ...] = ()
) -> Schema:
    return {
        "description": description,
        "type": "object",
        "required": list(required),
        "additionalProperties": False,
        "properties": properties,
    }


if __name__ == "__main__":
    sys.stdout.write(schema_text())
