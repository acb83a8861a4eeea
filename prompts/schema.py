"""The JSON Schema of template files, so that editors complete and check them.

`python -m prompts.schema` writes it; `prompts/template.schema.json` is its output. It says what a
file may look like; what names mean (is a variable declared?) and Jinja are the parser's to check.
"""

import json
import sys

from prompts.formats import NUMBER_FORMAT, DateFormat
from prompts.invisible import InvisibleKind
from prompts.segments import Volatility
from prompts.template import TEXT_TYPES, VariableType
from prompts.template_file import IDENTIFIER, NAME, RESERVED, ROLES, VERSION_DIGITS

Schema = dict[str, object]


def template_schema() -> Schema:
    """The schema, in the draft that editors know best."""
    return _object(
        "A Foreword prompt template.",
        required=("name", "version", "segments"),
        properties={
            "name": _pattern("What requests ask for.", NAME.pattern),
            "version": {
                "description": "Counts up with each change of the text.",
                "type": "integer",
                "minimum": 1,
                "maximum": 10**VERSION_DIGITS - 1,
            },
            "variables": {
                "description": "What the text may use: name, type, volatility.",
                "type": "object",
                "propertyNames": {
                    "pattern": f"^(?:{IDENTIFIER.pattern})$",
                    "not": {"enum": sorted(RESERVED)},
                },
                "additionalProperties": {"$ref": "#/definitions/variable"},
            },
            "tools": _pattern("The variable that holds the tools.", IDENTIFIER.pattern),
            "segments": {
                "description": "The prompt's parts, in the order in which they are sent.",
                "type": "array",
                "minItems": 1,
                "items": {"$ref": "#/definitions/segment"},
            },
        },
    ) | {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "definitions": {
            "variable": _variable(),
            "segment": {"oneOf": [_text_segment(), _messages_segment()]},
            "volatility": _words("How often it changes.", [level.label for level in Volatility]),
        },
    }


def schema_text() -> str:
    """The schema as the file holds it."""
    return json.dumps(template_schema(), indent=2, ensure_ascii=False) + "\n"


def _variable() -> Schema:
    number = _pattern('Decimals: ".2f", ",.2f" or ".1%".', NUMBER_FORMAT.pattern)
    date = _words("The form of the date; YYYY-MM-DD if not given.", list(DateFormat))
    text_types = [kind.value for kind in TEXT_TYPES]
    return _object(
        "A declared variable.",
        required=("type", "volatility"),
        properties={
            "type": _words("What it holds.", list(VariableType)),
            "volatility": _volatility(),
            "optional": _flag("Renders as empty when it isn't given."),
            "format": {"description": "How a number or a date is written.", "type": "string"},
            "normalize": _flag("If false, text goes in as given: no NFC, no change of line ends."),
        },
    ) | {
        "allOf": [
            _if_type(["number"], {"required": ["format"], "properties": {"format": number}}),
            _if_type(["date"], {"properties": {"format": date}}),
            _unless_type(["number", "date"], {"properties": {"format": False}}),
            _unless_type(text_types, {"properties": {"normalize": False}}),
        ]
    }


def _text_segment() -> Schema:
    return _object(
        "Text under one role.",
        required=("id", "role", "volatility", "text"),
        properties={
            "id": _pattern("The segment's name in reports.", IDENTIFIER.pattern),
            "role": _words("Who speaks.", list(ROLES)),
            "volatility": _volatility(),
            "text": {"description": "Jinja over the declared variables.", "type": "string"},
            "allow": {
                "description": "Invisible characters that are meant.",
                "type": "array",
                "items": _words("A kind of invisible character.", list(InvisibleKind)),
            },
        },
    )


def _messages_segment() -> Schema:
    return _object(
        "A conversation.",
        required=("id", "volatility", "messages"),
        properties={
            "id": _pattern("The segment's name in reports.", IDENTIFIER.pattern),
            "volatility": _volatility(),
            "messages": _pattern("The variable that holds it.", IDENTIFIER.pattern),
        },
    )


def _object(
    description: str, *, required: tuple[str, ...], properties: dict[str, Schema]
) -> Schema:
    return {
        "description": description,
        "type": "object",
        "required": list(required),
        "additionalProperties": False,
        "properties": properties,
    }


def _pattern(description: str, pattern: str) -> Schema:
    return {"description": description, "type": "string", "pattern": f"^(?:{pattern})$"}


def _words(description: str, words: list[str]) -> Schema:
    return {"description": description, "type": "string", "enum": [str(word) for word in words]}


def _flag(description: str) -> Schema:
    return {"description": description, "type": "boolean"}


def _volatility() -> Schema:
    return {"$ref": "#/definitions/volatility"}


def _if_type(types: list[str], then: Schema) -> Schema:
    return {"if": {"properties": {"type": {"enum": types}}}, "then": then}


def _unless_type(types: list[str], then: Schema) -> Schema:
    return {"if": {"properties": {"type": {"enum": types}}}, "else": then}


if __name__ == "__main__":
    sys.stdout.write(schema_text())
